"""A file that appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file"]


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Gives a file beside `file` to write, which takes its name when the block succeeds.

    A disk that was full leaves nothing: neither a part for the next run to read, nor one that takes
    the room.
    """
    aside = file.with_name(f".{file.name}.partial")
    try:
        yield aside
        aside.replace(file)
    except Exception:
        aside.unlink(missing_ok=True)
        raise
