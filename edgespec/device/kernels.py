"""The optional package `edgespec-kernels`: C++ implementations of edgespec's own operators.

A graph calls these operators and carries each as a function of standard ones, so it also runs
without kernels (docs/decisions/0018-kernels.md).
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.device.device import CPU, Device
from edgespec.device.kernel_files import check_libraries
from edgespec.device.processor import has_kernels
from edgespec.errors import UsageError, in_checkout, one_line

__all__ = [
    "OFF",
    "ON",
    "SWITCH",
    "Kernels",
    "installed_kernels",
    "kernels_for",
    "missing_kernels",
    "release",
]

logger = logging.getLogger("edgespec")

PACKAGE = "edgespec_kernels"
OLDEST = (0, 12)  # older ones lack operators, and do not know attention in bfloat16
SWITCH = "EDGESPEC_KERNELS"  # ON, OFF, or the name of an instruction set, which it forces
# PEP 440, without epochs; a device has no library for it.
VERSION = re.compile(
    r"""\s* v? (?P<major>\d+) (\.(?P<minor>\d+))? (\.\d+)*
    ([-_.]? (a|b|c|rc|alpha|beta|pre|preview) [-_.]? \d*)?  # before a release
    (-\d+ | [-_.]? (post|rev|r) [-_.]? \d*)?  # after it
    ([-_.]? dev [-_.]? \d*)?
    (\+[a-z0-9]+ ([-_.][a-z0-9]+)*)? \s*""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
NAME = "edgespec-kernels "  # before the version
ON = "1"
OFF = "0"
PROJECT = "runtimes/kernels"  # in a checkout


@dataclass(frozen=True)
class Kernels:
    """An installed build of the kernels.

    Attributes:
        name: package and version. All builds of a version have the same bits.
        target: the instruction set in use: amx, avx512bf16, avx512, avxvnni, avx2, i8mm or neon.
        library: what a session of ONNX Runtime registers.
    """

    name: str
    target: str
    library: Path

    def __str__(self) -> str:
        return f"{self.name} ({self.target})"

    @property
    def keep_packed(self) -> bool:
        """Whether sessions can take packed weights from a file; the first builds of 0.11 cannot."""
        import edgespec_kernels

        return hasattr(edgespec_kernels, "begin_packed")

    def are_since(self, version: str) -> bool:
        """Whether they are of this release or a later one."""
        return release(self.name.removeprefix(NAME)) >= release(version)


def installed_kernels() -> Kernels | None:
    """The kernels that are installed and run on this processor, unless they are switched off.

    Raises:
        UsageError: `EDGESPEC_KERNELS` names an instruction set that this processor lacks.
    """
    switch = os.environ.get(SWITCH, ON)
    if switch == OFF:
        return None
    try:
        return _installed(None if switch in (ON, "") else switch)
    except ModuleNotFoundError:
        return None


def kernels_for(device: Device) -> Kernels | None:
    """The kernels that sessions on this device use; only the processor has any."""
    return installed_kernels() if device.provider == CPU else None


def missing_kernels() -> str | None:
    """In one line: why none run although this processor has some, and how to get them.

    None where they run, are switched off, or would not run on this processor.
    """
    if os.environ.get(SWITCH, ON) == OFF or installed_kernels() or not has_kernels():
        return None
    return f"{_why_not()}; to decode faster: {in_checkout(PROJECT)}"


def _why_not() -> str:
    try:
        import edgespec_kernels

        if release(edgespec_kernels.__version__) < OLDEST:
            return f"edgespec-kernels {edgespec_kernels.__version__} are too old"
        check_libraries(edgespec_kernels.library().parent)
        problem = edgespec_kernels.problem()
    except ModuleNotFoundError:
        return "edgespec-kernels are not installed"
    except Exception:  # a damaged package raises anything; `_installed` has logged it
        problem = None
    return problem or "edgespec-kernels are damaged"


@cache
def _installed(forced: str | None) -> Kernels | None:
    """Raises ModuleNotFoundError, which is not cached: they may be installed later."""
    try:
        return _usable(forced)
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        if error.name == PACKAGE:
            raise
        reason = one_line(error)
    except Exception as error:  # damaged, or built for another system
        reason = one_line(error)
    logger.warning("edgespec-kernels are not used (%s); install them again", reason)
    return None


def _usable(forced: str | None) -> Kernels | None:
    """Raises whatever a damaged package raises."""
    import edgespec_kernels

    version = edgespec_kernels.__version__
    if release(version) < OLDEST:
        logger.warning(
            "edgespec-kernels %s is older than %s and is not used; install a newer one",
            version,
            ".".join(map(str, OLDEST)),
        )
        return None
    library = edgespec_kernels.library()
    check_libraries(library.parent)
    target = edgespec_kernels.target()
    if target is None:
        if forced is not None:
            raise UsageError(edgespec_kernels.problem())
        return None
    return Kernels(f"{NAME}{version}", target, library)


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version (PEP 440): (1, 0) for "1.0rc1", which has what 1.0 has.

    Raises:
        ValueError: it is no version.
    """
    read = VERSION.fullmatch(version)
    if read is None:
        raise ValueError(f"{version!r:.60} is no version")
    return int(read["major"]), int(read["minor"] or 0)
