"""A file that is written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file"]


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Gives a temporary file next to `file`, which takes its name when the block succeeds.

    After an error the temporary file is removed: a full disk leaves no part that the next run would
    read, or that takes room.
    """
    aside = file.with_name(f".{file.name}.partial")
    try:
        yield aside
        aside.replace(file)
    except Exception:
        aside.unlink(missing_ok=True)
        raise
