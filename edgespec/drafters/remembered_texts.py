"""Earlier outputs of a pair, kept in a folder of the user's to draft later texts.

A file belongs to one tokenizer. It is always written whole, next to the old one, and then takes its
name, so several processes may use a folder: where two end a text at once, one text is lost.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from edgespec.core.decode import Round
from edgespec.drafters.suffix_automaton import Follower, SuffixAutomaton
from edgespec.errors import EdgespecError, UsageError

__all__ = ["MOST_BYTES", "RememberedTexts", "forget"]

MOST_TOKENS = 65_536  # of them; 30 MB of memory
HEADER = b"edgespec texts 1\n"
DIGEST = hashlib.sha256().digest_size
MOST_BYTES = len(HEADER) + DIGEST + 4 * MOST_TOKENS  # of a file
END = -1  # after each text

logger = logging.getLogger("edgespec")


class RememberedTexts:
    """The outputs with one tokenizer: those of a file, and those of this process.

    Finished texts are written into the file. The newest 65 536 tokens are kept.

    Args:
        folder: made if it is missing; only the user may read it.
        tokenizer: its digest, in hexadecimal digits.
        vocab_size: of the target. Tokens that it lacks, which another target of the tokenizer may
            have, are never proposed.

    Raises:
        UsageError: the folder cannot be made or read.
    """

    def __init__(self, folder: Path, tokenizer: str, vocab_size: int) -> None:
        self._file = Path(os.path.realpath(folder / f"{tokenizer[:16]}.tokens"))
        self._saving = Lock()
        self._new: deque[Sequence[int]] = deque()  # not in the index yet
        self._index = SuffixAutomaton(MOST_TOKENS)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tokens = self._saved()
        except OSError as error:
            raise UsageError(
                f"{folder} cannot keep texts: {error.strerror}; give another folder"
            ) from None
        self._index.read(np.where(tokens < vocab_size, tokens, END).tolist())

    def begin(self) -> Follower:
        while self._new:
            self._index.read([*self._new.popleft(), END])
        return Follower(self._index)

    def watched(self, rounds: Iterator[Round]) -> Iterator[Round]:
        """The rounds of a text, which is remembered when they end by themselves."""
        tokens: list[int] = []
        for round_ in rounds:
            tokens += round_.tokens
            yield round_
        self.add(tokens)

    def add(self, tokens: Sequence[int]) -> None:
        """Remembers a text. Where the disk is full or the folder is gone, a line says so."""
        self._new.append(tokens)
        try:
            with self._saving:
                new = np.array([*tokens, END], "<i4")
                self._save(np.concatenate([self._saved(), new])[-MOST_TOKENS:])
        except OSError as error:
            logger.warning("%s: the text is not remembered: %s", self._file, error.strerror)

    def _saved(self) -> npt.NDArray[np.int32]:
        """The tokens of the file: none if it is missing or damaged."""
        try:
            with self._file.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return np.zeros(0, np.int32)
        body = data[len(HEADER) + DIGEST :]
        if len(data) > MOST_BYTES or len(body) % 4 or data != _sealed(body):
            logger.warning("%s is damaged; its texts are forgotten", self._file)
            return np.zeros(0, np.int32)
        return np.frombuffer(body, "<i4")

    def _save(self, tokens: npt.NDArray[np.int32]) -> None:
        descriptor, aside = tempfile.mkstemp(".partial", self._file.stem, self._file.parent)
        try:
            with open(descriptor, "wb") as file:  # only the user may read it
                file.write(_sealed(tokens.tobytes()))
            os.replace(aside, self._file)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise


def _sealed(body: bytes) -> bytes:
    """What a file holds: header, digest, tokens as little-endian 32-bit numbers."""
    return HEADER + hashlib.sha256(body).digest() + body


def forget(folder: Path) -> list[Path]:
    """Deletes what was remembered in a folder, and the folder if nothing else is in it.

    Returns: the files that are gone.

    Raises:
        EdgespecError: it is no folder, or a file cannot be deleted.
    """
    try:
        files = [
            file
            for file in sorted(folder.iterdir())
            if file.suffix in (".tokens", ".partial") and file.is_file() and _begins_as_ours(file)
        ]
        for file in files:
            file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise EdgespecError(f"{folder} cannot be forgotten: {error.strerror}") from None
    return files


def _begins_as_ours(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(HEADER)) == HEADER
