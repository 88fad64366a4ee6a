"""GGUF files by their first bytes and names: any name, and the parts of a split file."""

from __future__ import annotations

import re
from pathlib import Path

from edgespec.errors import EdgespecError

__all__ = ["MAGIC", "is_gguf", "part_of", "parts_of"]

MAGIC = b"GGUF"
_PART = re.compile(r"(?P<name>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.I)


def is_gguf(path: Path) -> bool:
    """Whether a file begins as a GGUF file does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def part_of(path: Path) -> int | None:
    """Which part of a split file this is by its name, from 1; None for a whole file."""
    found = _PART.fullmatch(path.name)
    return None if found is None else int(found["part"])


def parts_of(path: Path) -> list[Path]:
    """All parts of a split file, in order, by the name of one; a whole file alone.

    Raises:
        EdgespecError: a part is not there.
    """
    found = _PART.fullmatch(path.name)
    if found is None:
        return [path]
    count = int(found["count"])
    names = [
        f"{found['name']}-{part:05d}-of-{found['count']}{found['suffix']}"
        for part in range(1, count + 1)
    ]
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise EdgespecError(
            f"{path}: is a part of a split file, and {missing[0]} is not beside it: put all "
            f"{count} parts into one folder"
        )
    return [path.parent / name for name in names]
