"""Inputs that may be standard input or a pipe, for what reads a file more than once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgespec.artifact.writing.stream_output import STANDARD
from edgespec.errors import UsageError

__all__ = ["readable_twice"]


@contextmanager
def readable_twice(path: Path) -> Iterator[Path]:
    """The file itself; or a temporary one with what came from standard input ("-") or a pipe,
    which can be read only once.

    Raises:
        OSError: it cannot be read.
        UsageError: standard input is closed.
    """
    if path != STANDARD and (path.is_file() or not path.exists() or path.is_dir()):
        yield path
        return
    if path == STANDARD and sys.stdin is None:
        raise UsageError("standard input is closed; give a file")
    with tempfile.TemporaryDirectory(prefix="edgespec-") as folder:
        spooled = Path(folder) / ("standard-input" if path == STANDARD else path.name)
        with spooled.open("wb") as file:
            if path == STANDARD:
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, file)
        yield spooled
