"""Standard streams that were closed by whatever started this process: `>&-` in a shell, a service.

The next file that is opened would get the descriptor of a closed stream, and what a library prints
would go into that file: into a model that is being written, or a socket.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["replace_closed_streams"]


def replace_closed_streams() -> None:
    """Keeps the three descriptors taken. Nobody reads what a closed standard error is told; writing
    to a closed standard output fails (EBADF), and a closed standard input stays None."""
    if sys.stdin is None:
        _opened(os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = _stream(_opened(os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = _stream(_opened(os.O_WRONLY))


def _opened(mode: int) -> int:
    """A descriptor of the null device: the lowest that is free, and so that of the closed stream.
    Processes that are started inherit it, as they would the stream."""
    descriptor = os.open(os.devnull, mode)
    os.set_inheritable(descriptor, True)
    return descriptor


def _stream(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", encoding="utf-8")
