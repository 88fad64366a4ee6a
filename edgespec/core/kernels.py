"""The optional package `edgespec-kernels`: C++ implementations of edgespec's own operators.

A graph calls these operators and carries each as a function of standard ones, so it also runs
without kernels (docs/decisions/0018-kernels.md).
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.core.device import CPU, Device
from edgespec.errors import UsageError

__all__ = ["OFF", "ON", "SWITCH", "Kernels", "installed_kernels", "kernels_for"]

logger = logging.getLogger("edgespec")

OLDEST = (0, 8)  # older ones know other functions
SWITCH = "EDGESPEC_KERNELS"  # ON, OFF, or the name of an instruction set, which it forces
ON = "1"
OFF = "0"


@dataclass(frozen=True)
class Kernels:
    """An installed build of the kernels.

    Attributes:
        name: package and version. All builds of a version have the same bits.
        target: the instruction set in use: avx512, avxvnni, avx2, i8mm or neon.
        library: what a session of ONNX Runtime registers.
    """

    name: str
    target: str
    library: Path

    def __str__(self) -> str:
        return f"{self.name} ({self.target})"


def installed_kernels() -> Kernels | None:
    """The kernels that are installed and run on this processor, unless they are switched off.

    Raises:
        UsageError: `EDGESPEC_KERNELS` names an instruction set that this processor lacks.
    """
    switch = os.environ.get(SWITCH, ON)
    return None if switch == OFF else _installed(None if switch in (ON, "") else switch)


def kernels_for(device: Device) -> Kernels | None:
    """The kernels that sessions on this device use; only the processor has any."""
    return installed_kernels() if device.provider == CPU else None


@cache
def _installed(forced: str | None) -> Kernels | None:
    try:
        import edgespec_kernels

        version = tuple(map(int, edgespec_kernels.__version__.split(".")[:2]))
        if version < OLDEST:
            logger.warning(
                "edgespec-kernels %s is older than %s and is not used; install a newer one",
                edgespec_kernels.__version__,
                ".".join(map(str, OLDEST)),
            )
            return None
        target = edgespec_kernels.target()
        if target is None:
            if forced is not None:
                raise UsageError(edgespec_kernels.problem())
            return None
        library = edgespec_kernels.library()
    except ImportError:
        return None
    except OSError as error:  # damaged, or built for another system
        reason = str(error).partition("\n")[0]
        logger.warning("edgespec-kernels are not used (%s); install them again", reason)
        return None
    return Kernels(f"edgespec-kernels {edgespec_kernels.__version__}", target, library)
