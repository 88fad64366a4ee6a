"""Kept prompts of a pair in a folder of bounded size, for texts that are made at once."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgespec.core.model import common_length
from edgespec.errors import EdgespecError
from edgespec.pair.keeping.identity import identity_of
from edgespec.pair.keeping.kept_file import open_prefix, prefix_content

if TYPE_CHECKING:
    from edgespec.pair.parts import PairParts

__all__ = ["PrefixFolder"]

logger = logging.getLogger("edgespec")

LEAST = 64  # tokens that are worth a file
MOST_IN_USE = 8  # files that sequences may begin with
SUFFIX = ".prefix"
PRIVATE = 0o700


class KeptSequence(Protocol):
    """A sequence of a batch that can be kept."""

    def cached_keys(self, end: int, start: int = 0) -> Sequence[object]: ...
    @property
    def computed_length(self) -> int: ...


class PrefixFolder:
    """The files, by their tokens. What was not used for the longest time goes first.

    A file that cannot be written or read is said in the log: texts are made without it. The bytes
    hold while a file is written, too; one that alone has more is not kept.

    Args:
        folder: holds a folder for each pair.
        most_bytes: of this pair's files together.
    """

    def __init__(self, parts: PairParts, folder: Path, most_bytes: int) -> None:
        self._parts = parts
        self._most_bytes = most_bytes
        self._identity = identity_of(parts)
        said = " ".join(self._identity.values())
        self._folder = folder / hashlib.sha256(said.encode()).hexdigest()[:16]
        self._tokens: dict[Path, list[int]] = {}
        self._in_use: dict[Path, Callable[[], None]] = {}
        self._make_folder()
        for begun in self._folder.glob(f".*{SUFFIX}.*"):  # by a process that was killed
            with suppress(OSError):
                begun.unlink()
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                self._tokens[file] = open_prefix(self._identity, file).tokens
            except EdgespecError as error:
                logger.warning("%s", error)
                self._remove(file)
        self._make_room()

    def lend(self, tokens: Sequence[int], own: int) -> None:
        """Lets a prompt begin with what is kept of it, if that is much more than `own` tokens."""
        found = {file: common_length(kept, tokens) for file, kept in self._tokens.items()}
        file = max(found, key=found.__getitem__, default=None)
        if file is None or found[file] - own < LEAST:
            return
        forget = self._in_use.pop(file, None)
        if forget is None:
            try:
                forget = open_prefix(self._identity, file).use(self._parts)
            except EdgespecError as error:
                logger.warning("%s", error)
                self._remove(file)
                return
        self._in_use[file] = forget
        with suppress(OSError):
            os.utime(file)
        if len(self._in_use) > MOST_IN_USE:
            self._in_use.pop(next(iter(self._in_use)))()

    def keep(self, target: KeptSequence, draft: object | None) -> None:
        """Keeps what caches hold, unless a file has it."""
        tokens = [key for key in target.cached_keys(target.computed_length) if isinstance(key, int)]
        known = (common_length(kept, tokens) == len(tokens) for kept in self._tokens.values())
        if len(tokens) < LEAST or any(known):
            return
        name = hashlib.sha256(" ".join(map(str, tokens)).encode()).hexdigest()[:32]
        file = self._folder / f"{name}{SUFFIX}"
        shorter = [
            other
            for other, kept in self._tokens.items()
            if common_length(kept, tokens) == len(kept)
        ]
        try:
            content = prefix_content(self._parts, file, target, draft)
            if content.file_bytes > self._most_bytes:
                said = "%d tokens are not kept: they have %d bytes, and the folder may have %d"
                logger.info(said, len(tokens), content.file_bytes, self._most_bytes)
                return
            self._make_room(content.file_bytes, shorter)
            self._make_folder()  # somebody may have deleted it, to erase what it held
            content.write(file)
        except EdgespecError as error:
            logger.warning("%s", error)
            return
        for other in shorter:
            self._remove(other)
        self._tokens[file] = tokens

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(PRIVATE, parents=True, exist_ok=True)
        except OSError as error:
            raise EdgespecError(f"{self._folder} cannot be made: {error.strerror}") from None

    def _make_room(self, wanted: int = 0, first: Collection[Path] = ()) -> None:
        """Removes the files that were not used for the longest time, as far as a file of `wanted`
        bytes needs their room; of all, those of `first` first."""
        sizes: dict[Path, tuple[bool, float, int]] = {}
        for file in self._tokens:
            with suppress(OSError):
                about = file.stat()
                sizes[file] = file not in first, about.st_mtime, about.st_size
        total = wanted + sum(size for *_, size in sizes.values())
        for file in sorted(sizes, key=sizes.__getitem__):
            if total <= self._most_bytes:
                return
            total -= sizes[file][-1]
            self._remove(file)

    def _remove(self, file: Path) -> None:
        self._tokens.pop(file, None)
        forget = self._in_use.pop(file, None)
        if forget is not None:
            forget()
        with suppress(OSError):
            file.unlink()
