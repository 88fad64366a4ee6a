"""Kernels for edgespec's own operators, from the package `edgespec-kernels`.

A graph calls these operators and carries each as a function of standard ones, so that it runs
without kernels, too (docs/decisions/0018-kernels.md).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.device import CPU, Device

__all__ = ["Kernels", "kernels_for", "kernels_here"]

OLDEST = (0, 4)  # older ones know other operator names
SWITCH = "EDGESPEC_KERNELS"  # "0" leaves them out


@dataclass(frozen=True)
class Kernels:
    """Attributes:
    name: of the package, with its version and a digest: another build may round otherwise.
    library: what a session registers.
    """

    name: str
    library: Path


def kernels_here() -> Kernels | None:
    """What is installed and runs on this processor, unless it is switched off."""
    return None if os.environ.get(SWITCH) == "0" else _installed()


def kernels_for(device: Device) -> Kernels | None:
    """What sessions on this device take: kernels are the processor's."""
    return kernels_here() if device.provider == CPU else None


@cache
def _installed() -> Kernels | None:
    try:
        import edgespec_kernels

        version = tuple(map(int, edgespec_kernels.__version__.split(".")[:2]))
        if version < OLDEST or not edgespec_kernels.runs_here():
            return None
        library = edgespec_kernels.library()
        build = hashlib.sha256(library.read_bytes()).hexdigest()[:8]
    except (ImportError, OSError):  # not there, or made for another system
        return None
    return Kernels(f"edgespec-kernels {edgespec_kernels.__version__}+{build}", library)
