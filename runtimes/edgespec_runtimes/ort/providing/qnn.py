"""Sessions on Qualcomm's NPU (QNN): which settings a graph with fixed shapes takes.

The package `onnxruntime-qnn` also runs on x86-64, where its library emulates the NPU: the same
compiler, the same operators, slowly. Its device is then a processor.
"""

from __future__ import annotations

from importlib import import_module

from edgespec_runtimes.ort.providers import Provider

__all__ = ["is_qnn", "qnn_settings"]

# What the emulator stands for, as it has no chip to ask: Snapdragon 8 Gen 3.
EMULATED = {"soc_model": "57", "htp_arch": "75"}


def is_qnn(provider: Provider) -> bool:
    """Whether a provider is Qualcomm's."""
    return "qnn" in provider.name.lower()


def qnn_settings(provider: Provider, precision: str) -> dict[str, str]:
    """The provider's options for a graph.

    Args:
        precision: see `StaticCalls.precision`.
    """
    package = import_module("onnxruntime_qnn")
    narrow = precision != "fp32"
    settings = {
        "backend_path": str(package.get_qnn_htp_path()),
        "enable_htp_fp16_precision": "1" if narrow else "0",
    }
    device = provider.device
    emulated = device is not None and device.device.type.name.lower() == "cpu"
    return settings | (EMULATED if emulated else {})
