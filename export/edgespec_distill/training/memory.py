"""Memory of a training: freed memory stays in the process for a while; too little memory is one
line."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from edgespec.errors import EdgespecError

__all__ = ["keep_freed_memory", "one_line_memory", "return_freed_memory", "trim_above"]

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
MAX_INT = 2**31 - 1
STATM = Path("/proc/self/statm")  # pages of this process: all, resident, of files, …


def keep_freed_memory() -> None:
    """Tells glibc's malloc to return no memory to the system. Without glibc this does nothing.

    A step allocates and frees gigabytes in large pieces. By default each piece is returned to the
    system, and allocating it again costs a page fault for every 4 KB: a third of the time of a step
    on two virtual cores.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, MAX_INT)


def return_freed_memory() -> None:
    """Returns what `keep_freed_memory` kept so far, and the caches of texts that are finished.

    Pieces of ever new sizes leave gaps between them: the longer a program keeps them all, the more
    of its memory they take, and the less is left for the files that it reads. A target's batch and
    its sequences refer to each other, so without a search they stay, with gigabytes.
    """
    gc.collect()
    _trim()


def trim_above(most: float) -> None:
    """Returns what `keep_freed_memory` kept so far, if this process has more than so many bytes,
    files apart. Elsewhere than on Linux this does nothing."""
    if STATM.exists():
        _, resident, shared, *_ = map(int, STATM.read_text().split())
        if (resident - shared) * os.sysconf("SC_PAGE_SIZE") > most:
            _trim()


def _trim() -> None:
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def one_line_memory() -> Iterator[None]:
    """Raises an EdgespecError for each of the ways in which torch reports missing memory."""
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
