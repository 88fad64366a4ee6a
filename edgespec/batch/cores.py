"""The cores of a machine, and how several processes share them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

__all__ = ["CORES", "Core", "bind_to_cores", "cores_text", "shared_cores", "sockets_here"]

Core = tuple[int, ...]  # its logical processors: two with hyper-threading
CORES = "EDGESPEC_CORES"  # environment variable: the cores of this process, as `cores_text` writes
TOPOLOGY = Path("/sys/devices/system/cpu")


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


def cores_text(cores: Sequence[Core]) -> str:
    """Two cores with two logical processors each are "0,2;1,3"."""
    return ";".join(",".join(map(str, core)) for core in cores)


def bind_to_cores() -> int | None:
    """Moves all threads of this process to the cores that `CORES` names, where the system can, and
    returns their number; None without `CORES`."""
    text = os.environ.get(CORES)
    if text is None:
        return None
    cores = [[int(number) for number in core.split(",")] for core in text.split(";")]
    if hasattr(os, "sched_setaffinity"):
        processors = {processor for core in cores for processor in core}
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)
    return len(cores)


def _allowed() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _number(file: Path, otherwise: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return otherwise
