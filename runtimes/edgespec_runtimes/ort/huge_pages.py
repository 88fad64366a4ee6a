"""Large pages of memory for the weights that a session holds.

A step reads every weight once, and the processor looks up every page that they lie on: 33 000 pages
of 4 KB for 135 MB, in a virtual machine through two tables. Of pages of 2 MB there are 68. Linux
makes them where it is asked to (madvise(2)), and ONNX Runtime does not ask.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["on_huge_pages"]

PAGE = 2**21
MADV_COLLAPSE = 25  # Linux 6.1; it leaves alone what was never written


@contextmanager
def on_huge_pages() -> Iterator[None]:
    """Puts what the process takes from the system in here onto huge pages, in the end.

    A hint: a system that will not or cannot leaves the memory as it was.
    """
    before = _pages()
    yield
    taken = _pages() - before
    if taken:
        advise = ctypes.CDLL(None).madvise
        for place in taken:
            advise(ctypes.c_void_p(place), ctypes.c_size_t(PAGE), MADV_COLLAPSE)


def _pages() -> set[int]:
    """Where huge pages would fit into the process's own memory; nowhere if that cannot be told."""
    if sys.platform != "linux":
        return set()
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    places: set[int] = set()
    for line in maps.splitlines():
        span, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(part, 16) for part in span.split("-"))
            places.update(range(-(-start // PAGE) * PAGE, end - PAGE + 1, PAGE))
    return places
