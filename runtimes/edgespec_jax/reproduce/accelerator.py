"""A description of the machine that a measurement ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import jax

__all__ = ["machine"]


def machine() -> dict[str, str | float | None]:
    """Device, host and versions, as text."""
    device = jax.devices()[0]
    processor = platform.processor()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    return {
        "device": f"{device.device_kind} ({device.platform})",
        "host": f"{processor}, {os.cpu_count()} cores, {platform.machine()}",
        "jax": jax.__version__,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS") or None,
        "python": platform.python_version(),
    }
