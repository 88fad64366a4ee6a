"""Huge pages of memory for the weights that a session holds.

A decoding step reads every weight once, and the processor looks up the address of every page: for
135 MB these are 33 000 pages of 4 KB, each through two tables in a virtual machine, or 68 pages of
2 MB. Linux makes huge pages on request (madvise(2)), and ONNX Runtime does not request them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["on_huge_pages"]

HUGE_PAGE = 2**21  # bytes
MADV_COLLAPSE = 25  # Linux 6.1 and later; it skips memory that was never written


@contextmanager
def on_huge_pages() -> Iterator[None]:
    """Moves the memory that the process allocates inside the block onto huge pages at its end.

    This is a hint: a system that cannot do it leaves the memory as it was.
    """
    before = _huge_page_addresses()
    yield
    allocated = _huge_page_addresses() - before
    if allocated:
        madvise = ctypes.CDLL(None).madvise
        for address in allocated:
            madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)


def _huge_page_addresses() -> set[int]:
    """Addresses where a huge page fits into the process's private memory; none if unknown."""
    if sys.platform != "linux":
        return set()
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    addresses: set[int] = set()
    for line in maps.splitlines():
        span, permissions, _, _, inode, *name = line.split(maxsplit=5)
        if permissions == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(part, 16) for part in span.split("-"))
            addresses.update(
                range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE)
            )
    return addresses
