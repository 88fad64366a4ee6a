"""A file in a kept folder that says when it was last used, and whether it is exact here."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.atomic_file import whole_file
from edgespec.device.home import home

__all__ = ["UsedMark", "mark_used", "pairs_home", "read_mark"]

MARK = "used.json"
PACKAGES = ("onnxruntime", "edgespec-kernels")  # what decides the bits of a model
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
    """

    seconds: float
    exact: bool | None


def mark_used(folder: Path, exact: bool | None) -> None:
    """Marks a folder among those that are kept as used now; others stay as they are.

    Args:
        exact: as in `UsedMark`; None leaves what is known.
    """
    if folder.resolve().parent != pairs_home().resolve():
        return
    known = read_mark(folder)
    if exact is None and known is not None:
        exact = known.exact
    with suppress(OSError), whole_file(folder / MARK) as aside:  # a cache may be read only
        aside.write_text(json.dumps({"exact": exact, "machine": _machine()}), encoding="utf-8")


def read_mark(folder: Path) -> UsedMark | None:
    """None where a folder was never used, or the mark cannot be read."""
    file = folder / MARK
    try:
        seconds = file.stat().st_mtime
        data = json.loads(file.read_text(encoding="utf-8"))
        exact = data["exact"] if data["machine"] == _machine() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return UsedMark(seconds, exact if isinstance(exact, bool) else None)


def _machine() -> list[str]:
    """What a test of exactness holds for, without loading a runtime: its own record of the machine
    (`edgespec_runtimes.machine`) takes a second."""
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package}")
    switches = [f"{name}={os.environ.get(name, '')}" for name in SWITCHES]
    return [*versions, *switches, platform.machine(), f"{os.cpu_count()} cores", _processor()]


def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(PROCESSOR):
                return line.partition(":")[2].strip()
    return platform.processor()
