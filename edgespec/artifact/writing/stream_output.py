"""Output that goes to a reader: standard output, a pipe, a device.

Such an output has no name to be replaced: what is written there is gone, and nothing of it can be
continued.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgespec.artifact.atomic_file import named_errors, whole_file

__all__ = ["STANDARD", "goes_to_standard_output", "is_stream", "open_stream", "write_bytes"]

STANDARD = Path("-")  # standard output, or standard input
MOST_LINKS = 40


def is_stream(out: Path) -> bool:
    """Whether it is "-", a pipe, a device, or a descriptor of this process (/dev/stdout, or a
    shell's >(…)), also through links."""
    if out == STANDARD or _descriptor(out) is not None:
        return True
    return out.exists() and not (out.is_file() or out.is_dir())


def goes_to_standard_output(out: Path) -> bool:
    """Whether it is standard output under one of its names."""
    return out == STANDARD or _descriptor(out) == 1


@contextmanager
def open_stream(out: Path) -> Iterator[BinaryIO]:
    """The stream to be written to, for an output that `is_stream`.

    Raises:
        OSError: it cannot be opened; or by the block, which it then names.
    """
    if out == STANDARD:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    descriptor = _descriptor(out)
    with named_errors(out):
        # Opening /dev/stdout again would begin at the start of a file that a shell appends to.
        opened = os.open(out, os.O_WRONLY) if descriptor is None else os.dup(descriptor)
        with os.fdopen(opened, "wb") as stream:
            yield stream


def write_bytes(data: bytes, out: Path) -> None:
    """Writes a file whole or not at all, or to a stream.

    Raises:
        OSError: it cannot be written.
    """
    if is_stream(out):
        with open_stream(out) as stream:
            stream.write(data)
        return
    with whole_file(out) as aside:
        aside.write_bytes(data)


def _descriptor(path: Path) -> int | None:
    """The number of the descriptor of this process that a path names; None if it names none."""
    own = Path("/dev/fd")
    if not own.exists():
        return None
    for _ in range(MOST_LINKS):
        if path.name.isdecimal() and path.parent.resolve() == own.resolve():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None
