"""How much memory this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["memory_limit"]

# Of a container: Linux's control groups of version 2 and of version 1.
CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_limit() -> int | None:
    """Bytes of the machine, or of the container that the process is in; None if unknown."""
    limits = []
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # "max" is no number
            limits.append(int(Path(file).read_text()))
    return min((limit for limit in limits if limit > 0), default=None)
