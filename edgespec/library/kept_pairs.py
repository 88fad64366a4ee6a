"""What is kept: each exported folder as its manifest describes it, also one of another version."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgespec.artifact.hosts import made_for
from edgespec.artifact.kept.used_mark import pairs_home, read_mark
from edgespec.errors import EdgespecError, looks_like_a_path, shortened
from edgespec.library.tested_before import tested_before
from edgespec.version import VERSION

__all__ = [
    "MANIFEST",
    "KeptPair",
    "as_json",
    "bytes_of",
    "find_kept",
    "kept_pairs",
    "older_exports",
    "older_line",
    "read_kept",
    "size",
]

MANIFEST = "edgespec.json"
PROFILE = "profile.json"  # of `edgespec tune`
# The end of a folder's name that an export gave it: a digest of what it was made from.
DIGEST = re.compile(r"--[0-9a-f]{8}$")
UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class KeptPair:
    """An exported folder.

    Attributes:
        name: what every command finds it by.
        path: where it is.
        model, draft: sources, for people; None without a draft.
        formats, draft_formats: of the target's and of the draft's variants; the first is the
            default.
        bytes: of all its files.
        last_used: seconds since 1970; when it was made, if it was never used.
        exact: see `UsedMark`.
        tuned: `edgespec tune` has found its fastest setting.
        version: of edgespec that exported it.
        format_version: of its manifest.
        chats: it has a chat format.
        made_for: see `edgespec.artifact.hosts.made_for`.
    """

    name: str
    path: str
    model: str
    draft: str | None
    formats: list[str]
    draft_formats: list[str]
    bytes: int
    last_used: float
    exact: bool | None
    tuned: bool
    version: str
    format_version: int
    chats: bool
    made_for: Mapping[str, Any] | None

    @property
    def is_older(self) -> bool:
        """Made by another version: when its model is asked for by name, it is exported again."""
        return self.version != VERSION and DIGEST.search(self.name) is not None


def kept_pairs() -> list[KeptPair]:
    """Those in the cache, the one that was used last first. What is no exported folder is passed
    over."""
    found = []
    for folder in _folders(pairs_home()):
        try:
            found.append(read_kept(folder))
        except EdgespecError:
            continue
    return sorted(found, key=lambda pair: (-pair.last_used, pair.name))


def _folders(home: Path) -> Iterator[Path]:
    try:
        yield from (path for path in home.iterdir() if not path.name.startswith("."))
    except OSError:
        return


def read_kept(folder: Path) -> KeptPair:
    """Raises EdgespecError if it is no exported folder."""
    file = folder / MANIFEST
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        target, draft = data["target"], data["draft"]
        mark = read_mark(folder)
        last_used = mark.seconds if mark else file.stat().st_mtime
        exact = mark.exact if mark and mark.is_current else tested_before(folder, last_used)
        return KeptPair(
            folder.name,
            str(folder),
            str(target["source"]),
            str(draft["source"]) if draft else None,
            list(target["variants"]),
            list(draft["variants"]) if draft else [],
            bytes_of(folder),
            last_used,
            exact,
            (folder / PROFILE).is_file(),
            str(data.get("created_by", "")).rpartition(" ")[2],
            int(data["version"]),
            bool(data.get("chat")) or "chat_template.json" in data.get("files", ()),
            made_for(data),
        )
    except OSError as error:
        raise EdgespecError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EdgespecError(f"{file} is damaged ({error}); export the pair again") from None


def find_kept(name: str) -> KeptPair:
    """The folder of a name: its own, the beginning of it, or its model's. Raises EdgespecError."""
    pairs = kept_pairs()
    exactly = [pair for pair in pairs if pair.name == name]
    if exactly:
        return exactly[0]
    lower = name.lower()
    near = [
        pair for pair in pairs if pair.name.lower().startswith(lower) or lower in _names(pair.model)
    ]
    if len(near) == 1:
        return near[0]
    if near:
        names = ", ".join(pair.name for pair in near[:5])
        raise EdgespecError(f"{shortened(name)} means {len(near)} exports; give one: {names}")
    also = f"there is no folder {shortened(name)}, and " if looks_like_a_path(name) else ""
    if Path(name).is_dir():
        also = f"the folder {shortened(name)} has no {MANIFEST}, and "
    raise EdgespecError(f"{also}no export is called {shortened(name)}; edgespec list names them")


def _names(source: str) -> set[str]:
    """What a model may be called: "smollm2-1.7b" and "HuggingFaceTB/SmolLM2-1.7B-Instruct"."""
    return {part.strip().lower() for part in source.split("→")}


def older_exports(new: Path) -> list[KeptPair]:
    """Those of the same models as a new export, by another version of edgespec."""
    prefix = DIGEST.sub("--", new.name)
    return [
        pair
        for pair in kept_pairs()
        if pair.is_older and DIGEST.sub("--", pair.name) == prefix and pair.name != new.name
    ]


def older_line(new: Path) -> str | None:
    """What to say after an export if another version's exports of the same models are kept."""
    older = older_exports(new)
    if not older:
        return None
    room = size(sum(pair.bytes for pair in older))
    versions = ", ".join(sorted({pair.version for pair in older}))
    return f"exported before by edgespec {versions}; edgespec prune removes that ({room})"


def bytes_of(folder: Path) -> int:
    """All files of a folder, or one file."""
    if folder.is_file():
        return folder.stat().st_size
    total = 0
    for inside, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.lstat(os.path.join(inside, file)).st_size
            except OSError:
                continue
    return total


def size(count: float) -> str:
    """Bytes for people: "1.9 GB"."""
    place = 0
    while round(count) >= 1000 and place < len(UNITS) - 1:
        count /= 1000
        place += 1
    unit = UNITS[place]
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def as_json(pair: KeptPair) -> Mapping[str, object]:
    """With `is_older`, for programs."""
    return {**vars(pair), "is_older": pair.is_older}
