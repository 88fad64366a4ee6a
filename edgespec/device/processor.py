"""Does `edgespec-kernels` have an instruction set for this processor? Asked where none are
installed; the kernels themselves choose in runtimes/kernels/src/dispatch/processor.h.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["has_kernels"]

X86 = ("x86_64", "amd64")
ARM = ("aarch64", "arm64")
NEEDED = {"x86": {"avx2", "fma", "f16c"}, "arm": {"asimddp"}}  # as Linux names them
WINDOWS_AVX2 = 40  # PF_AVX2_INSTRUCTIONS_AVAILABLE; processors with it have FMA and F16C


def has_kernels() -> bool:
    """Whether kernels would run here; False where that cannot be told."""
    machine = platform.machine().lower()
    kind = "x86" if machine in X86 else "arm" if machine in ARM else None
    if kind is None:
        return False
    if sys.platform == "linux":
        return NEEDED[kind] <= _linux_features()
    if sys.platform == "darwin":
        return kind == "arm"  # each of Apple's has the dot product; no wheel is made for the others
    windll: Any = getattr(ctypes, "windll", None)
    return kind == "x86" and bool(
        windll and windll.kernel32.IsProcessorFeaturePresent(WINDOWS_AVX2)
    )


def _linux_features() -> set[str]:
    """What the kernel says about the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return set()
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(line[1].split()) if line else set()
