"""The cores of a machine, and the share of them that one of several processes takes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal

from edgespec.errors import needs_extra

__all__ = ["Core", "CoreShare", "Shares", "shared_cores", "sockets_here"]

Core = tuple[int, ...]  # its logical processors: two with hyper-threading
Shares = Literal["socket"] | int  # a share for each socket, or so many of the machine
TOPOLOGY = Path("/sys/devices/system/cpu")


class CoreShare:
    """A share of this machine's cores, to which this process is bound where the system can.

    It is the first that no other process has; with more processes than shares, the first. It is
    free again when this object or the process ends, however that ends.

    Args:
        folder: where the processes of this machine leave locks; None takes one for this user.

    Attributes:
        cores: of the share.
    """

    def __init__(self, shares: Shares, folder: Path | None = None) -> None:
        sockets = sockets_here()
        cores = list(chain.from_iterable(sockets))
        choices = sockets if shares == "socket" else shared_cores(cores, shares)
        index = self._claim(len(choices), folder or _lock_folder())
        self.cores = choices[index]
        if len(choices) > 1:
            _bind_to(self.cores)

    def _claim(self, count: int, folder: Path) -> int:
        with needs_extra("batch"):
            from filelock import FileLock, Timeout

        folder.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            self._lock = FileLock(folder / f"{index}-of-{count}.lock")
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                continue
            return index
        return 0


def sockets_here(topology: Path = TOPOLOGY) -> list[list[Core]]:
    """The cores of each socket that this process may use; one socket where the system does not
    tell."""
    sockets: dict[int, dict[int, list[int]]] = {}
    for processor in _allowed():
        folder = topology / f"cpu{processor}" / "topology"
        cores = sockets.setdefault(_number(folder / "physical_package_id", 0), {})
        cores.setdefault(_number(folder / "core_id", processor), []).append(processor)
    return [[tuple(core) for core in cores.values()] for _, cores in sorted(sockets.items())]


def shared_cores(cores: Sequence[Core], count: int) -> list[list[Core]]:
    """The cores in `count` shares of neighbours. With more shares than cores, several have the
    same core."""
    if count > len(cores):
        return [[cores[index % len(cores)]] for index in range(count)]
    ends = [len(cores) * index // count for index in range(count + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(ends)]


def _bind_to(cores: Sequence[Core]) -> None:
    """Moves all threads of this process; those that they start stay there, too."""
    if hasattr(os, "sched_setaffinity"):
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), chain.from_iterable(cores))


def _lock_folder() -> Path:
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"edgespec-cores{user}"


def _allowed() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _number(file: Path, otherwise: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return otherwise
