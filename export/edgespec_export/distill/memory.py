"""Memory that a training frees and takes again a thousand times, kept in the process."""

from __future__ import annotations

import ctypes
import platform

__all__ = ["keep_freed_memory"]

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
