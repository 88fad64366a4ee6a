"""What a measurement was made on."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import onnxruntime as ort

from edgespec.core.device import Device
from edgespec_runtimes.ort.providers import find_provider

__all__ = ["describe"]

# What /proc/cpuinfo says of a processor's kind, on x86 and on ARM.
KIND = (
    *("model name", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision", "Features"),
)


def describe(device: Device) -> str:
    """What a measurement was made on; where this differs, other kernels may run.

    Raises:
        UsageError: there is no such provider here.
    """
    threads, provider = device.threads, find_provider(device.provider).info
    cores = f"{threads} threads" if threads else f"default threads of {os.cpu_count()} cores"
    return f"onnxruntime {ort.__version__} {provider}, {cores}, {platform.machine()} {_processor()}"


def _processor() -> str:
    """Its name, which a virtual machine may shorten and ARM lacks, and a digest of what it can."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = ""
    lines = (line.partition(":") for line in first.splitlines())
    known = {key.strip(): value.strip() for key, _, value in lines}
    kind = [platform.version()] if not known else [known.get(key, "") for key in KIND]
    name = known.get("model name") or platform.processor() or "processor"
    return f"{name} #{hashlib.sha256(' '.join(kind).encode()).hexdigest()[:8]}"
