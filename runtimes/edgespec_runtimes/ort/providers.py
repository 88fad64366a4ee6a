"""The execution providers of ONNX Runtime on this machine, and edgespec's names for them.

Some are built into the installed runtime, others are plug-ins (`plugins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnxruntime as ort

from edgespec.device.device import CPU, ProviderInfo
from edgespec.device.kernels import installed_kernels
from edgespec.errors import UsageError, shortened
from edgespec_runtimes.ort.providing.plugins import load_plugins

__all__ = ["CPU_TITLE", "Provider", "all_providers", "find_provider", "unusable_plugins"]

CPU_TITLE = "CPUExecutionProvider"
TITLE_SUFFIX = "executionprovider"  # most titles end in it
LIBRARY_KEY = "library_path"  # in the metadata of a plug-in's device
REMOTE_TITLE = "AzureExecutionProvider"  # not on this machine: it sends its work to a server
# ONNX Runtime's names of devices with memory of their own, by the providers that use them.
MEMORY = {
    "CUDAExecutionProvider": "cuda",
    "DmlExecutionProvider": "dml",
    "WebGpuExecutionProvider": "webgpu",
}


@dataclass(frozen=True)
class Provider:
    """An execution provider with one of its devices.

    Attributes:
        info: its name ("cpu", "openvino", or "openvino:gpu" if it has several devices), title,
            version and hardware.
        device: the device it runs on; None if the runtime does not name one, and for the processor.
        plugged_in: it is a plug-in, not part of the installed runtime.
    """

    info: ProviderInfo
    device: ort.OrtEpDevice | None = None
    plugged_in: bool = False

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def title(self) -> str:
        return self.info.title

    @property
    def memory(self) -> str | None:
        """ONNX Runtime's name of the device whose memory tensors can stay in; None where that is
        the host's, or not known."""
        return None if self.plugged_in else MEMORY.get(self.title)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that it can be asked for by."""
        short = _short_name(self.title)
        return (short,) if self.device is None else (short, f"{short}:{_kind(self.device)}")


def processor() -> Provider:
    """ONNX Runtime's own provider, with edgespec's kernels if they are installed."""
    kernels = installed_kernels()
    return Provider(ProviderInfo(CPU, CPU_TITLE, kernels.name if kernels else "", ""))


def find_provider(name: str) -> Provider:
    """The provider with this name; its first device, if the name does not say which.

    Raises:
        UsageError: there is none on this machine.
    """
    wanted = name.lower() if isinstance(name, str) else name
    if wanted == CPU:
        return processor()  # without loading plug-ins
    available = all_providers()
    fitting = [provider for provider in available if wanted in provider.names]
    if not fitting:
        names = ", ".join(provider.name for provider in available)
        unusable = "".join(f"; {reason}" for reason in unusable_plugins())
        raise UsageError(
            f"there is no provider {shortened(name)} here; there is: {names}{unusable}. "
            "Others come with another build of onnxruntime, or with a plug-in such as "
            "onnxruntime-qnn or onnxruntime-ep-openvino"
        )
    return fitting[0]


def all_providers() -> list[Provider]:
    """The processor first, then other built-in providers, then plug-ins.

    A provider with several kinds of devices is listed once for each kind, with its first device.
    """
    versions = load_plugins().versions
    found: dict[str, dict[str, ort.OrtEpDevice | None]] = {}
    for device in ort.get_ep_devices():
        found.setdefault(device.ep_name, {}).setdefault(_kind(device), device)
    for title in ort.get_available_providers():
        found.setdefault(title, {"": None})
    others = [
        _on_device(title, device, f":{kind}" if len(kinds) > 1 else "", versions)
        for title, kinds in found.items()
        if title not in (CPU_TITLE, REMOTE_TITLE)
        for kind, device in kinds.items()
    ]
    return [processor(), *sorted(others, key=lambda provider: provider.plugged_in)]


def unusable_plugins() -> list[str]:
    """A line for each installed plug-in that cannot be used, with the reason."""
    return load_plugins().unusable


def _on_device(
    title: str, device: ort.OrtEpDevice | None, kind: str, versions: Mapping[str, str]
) -> Provider:
    """A provider with one of its devices.

    Args:
        kind: the end of its name that tells its devices apart; empty if it has one.
        versions: of the plug-ins' packages, by library; more precise than the library's own.
    """
    metadata = {} if device is None else device.ep_metadata
    library = metadata.get(LIBRARY_KEY)
    version = versions.get(library, metadata.get("version", "")) if library else ""
    info = ProviderInfo(f"{_short_name(title)}{kind}", title, version, _hardware(device))
    return Provider(info, device, library is not None)


def _short_name(title: str) -> str:
    return title.lower().removesuffix(TITLE_SUFFIX)


def _hardware(device: ort.OrtEpDevice | None) -> str:
    """Vendor, kind and numbers of a device; empty if there is none."""
    if device is None:
        return ""
    found = device.device
    return f"{found.vendor} {_kind(device)} {found.vendor_id:#06x}:{found.device_id:#06x}"


def _kind(device: ort.OrtEpDevice) -> str:
    """cpu, gpu or npu."""
    return str(device.device.type.name).lower()
