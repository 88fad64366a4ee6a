"""A file in a kept folder that says when it was last used, and whether it is exact here."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.artifact.atomic_file import whole_file
from edgespec.device.home import home

__all__ = ["UsedMark", "mark_used", "pairs_home", "read_mark"]

MARK = "used.json"
# What decides the bits of a model: "onnxruntime-1.25.0.dist-info" among the installed packages.
PACKAGES = re.compile(r"(onnxruntime\w*|edgespec_kernels)-[^-]+(?=\.(dist|egg)-info$)")
SWITCHES = ("EDGESPEC_KERNELS",)
PROCESSOR = ("model name", "CPU part")  # in /proc/cpuinfo, on x86 and on ARM


def pairs_home() -> Path:
    """Where exported pairs are kept: $EDGESPEC_HOME/pairs; else $XDG_CACHE_HOME/edgespec/pairs;
    else ~/.cache/edgespec/pairs."""
    return home() / "pairs"


@dataclass(frozen=True)
class UsedMark:
    """What is known of a folder's last use.

    Attributes:
        seconds: when, since 1970.
        exact: its default target is row-invariant on this machine as it is now; None where that
            was not tested, or the machine has changed since.
        is_current: it was written on this machine as it is now.
    """

    seconds: float
    exact: bool | None
    is_current: bool = True


def mark_used(folder: Path, exact: bool | None, seconds: float | None = None) -> None:
    """Marks a folder among those that are kept as used; others stay as they are.

    Args:
        exact: as in `UsedMark`; None leaves what is known.
        seconds: when, since 1970; None is now.
    """
    if folder.resolve().parent != pairs_home().resolve():
        return
    known = read_mark(folder)
    if exact is None and known is not None:
        exact = known.exact
    with suppress(OSError):  # a cache may be read only
        with whole_file(folder / MARK) as aside:
            aside.write_text(json.dumps({"exact": exact, "machine": _machine()}), encoding="utf-8")
        if seconds is not None:
            os.utime(folder / MARK, (seconds, seconds))


def read_mark(folder: Path) -> UsedMark | None:
    """None where a folder was never used, or the mark cannot be read."""
    file = folder / MARK
    try:
        seconds = file.stat().st_mtime
        data = json.loads(file.read_text(encoding="utf-8"))
        is_current = data["machine"] == _machine()
        exact = data["exact"] if is_current else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return UsedMark(seconds, exact if isinstance(exact, bool) else None, is_current)


def _machine() -> list[str]:
    """What a test of exactness holds for, without loading a runtime: its own record of the machine
    (`edgespec_runtimes.machine`) takes a second."""
    switches = [f"{name}={os.environ.get(name, '')}" for name in SWITCHES]
    return [*_installed(), *switches, platform.machine(), f"{os.cpu_count()} cores", _processor()]


@cache
def _installed() -> list[str]:
    """`PACKAGES` with their versions. `importlib.metadata` would say the same, and takes as long as
    all else that `edgespec list` imports."""
    found = set()
    for place in sys.path:
        with suppress(OSError):
            found |= {
                match[0] for name in os.listdir(place or ".") if (match := PACKAGES.match(name))
            }
    return sorted(found)


@cache
def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(PROCESSOR):
                return line.partition(":")[2].strip()
    return platform.processor()
