"""The memory of a training: kept in the process, and one line where there is too little."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from edgespec.errors import EdgespecError

__all__ = ["keep_freed_memory", "one_line_memory"]

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Has glibc's malloc give nothing back to the system.

    A step takes and frees gigabytes in large pieces. By default each goes back to the system, and
    taking it again costs a page fault for every 4 KB: a third of a step on two virtual cores.
    Elsewhere than with glibc this does nothing.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, MOST)


@contextmanager
def one_line_memory() -> Iterator[None]:
    """Torch tells of missing memory in several ways."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        pass
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
    else:
        return
    raise EdgespecError(
        "there is not enough memory; give fewer --positions or --max-new-tokens, a smaller "
        "--width or --vocabulary, or a smaller target"
    )
