"""The optional package `edgespec-kernels`: C++ implementations of edgespec's own operators.

A graph calls these operators and carries each as a function of standard ones, so it also runs
without kernels (docs/decisions/0018-kernels.md).
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.core.device import CPU, Device

__all__ = ["Kernels", "installed_kernels", "kernels_for"]

logger = logging.getLogger("edgespec")

OLDEST = (0, 4)  # older ones know other operator names
SWITCH = "EDGESPEC_KERNELS"  # "0" switches kernels off


@dataclass(frozen=True)
class Kernels:
    """An installed build of the kernels.

    Attributes:
        name: package, version and digest of the library: another build may round differently.
        library: what a session of ONNX Runtime registers.
    """

    name: str
    library: Path


def installed_kernels() -> Kernels | None:
    """The kernels that are installed and run on this processor, unless they are switched off."""
    return None if os.environ.get(SWITCH) == "0" else _installed()


def kernels_for(device: Device) -> Kernels | None:
    """The kernels that sessions on this device use; only the processor has any."""
    return installed_kernels() if device.provider == CPU else None


@cache
def _installed() -> Kernels | None:
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
        if not edgespec_kernels.runs_here():
            return None
        library = edgespec_kernels.library()
        build = hashlib.sha256(library.read_bytes()).hexdigest()[:8]
    except (ImportError, OSError):  # not installed, or built for another system
        return None
    return Kernels(f"edgespec-kernels {edgespec_kernels.__version__}+{build}", library)
