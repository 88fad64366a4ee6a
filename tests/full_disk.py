"""Files that take no more bytes than a limit, as on a disk that is full: refused by the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["full_after"]


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """While the block runs no file grows beyond so many bytes."""
    resource = pytest.importorskip("resource", reason="this system has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
