"""Which execution providers ONNX Runtime has on this machine, and what they are called here.

Some are built into the installed runtime. Others are plug-ins: packages such as
`onnxruntime-ep-openvino`, which bring a library that the runtime loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import distributions
from typing import Any, NamedTuple

import onnxruntime as ort

from edgespec.core.device import CPU, ProviderInfo
from edgespec.core.kernels import installed_kernels
from edgespec.errors import UsageError

__all__ = ["TITLE", "Provider", "all_providers", "find_provider", "hindered_plugins"]

TITLE = "CPUExecutionProvider"  # the processor's
SUFFIX = "executionprovider"  # of most titles
LIBRARY = "library_path"  # in what the runtime knows of a plug-in's device
REMOTE = "AzureExecutionProvider"  # hands its work to a server


@dataclass(frozen=True)
class Provider:
    """Attributes:
    info: its name, "cpu", "openvino", or "openvino:gpu" where it has several devices; and more.
    device: the `OrtEpDevice` it runs on; None where the runtime does not tell, and for the
        processor.
    plugged_in: it is no part of the installed runtime.
    """

    info: ProviderInfo
    device: Any = None
    plugged_in: bool = False

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def title(self) -> str:
        return self.info.title

    @property
    def names(self) -> tuple[str, ...]:
        """All that it answers to."""
        short = _short(self.title)
        return (short,) if self.device is None else (short, f"{short}:{_kind(self.device)}")


def processor() -> Provider:
    """ONNX Runtime's own provider, with edgespec's kernels where they are."""
    kernels = installed_kernels()
    return Provider(ProviderInfo(CPU, TITLE, kernels.name if kernels else "", ""))


def find_provider(name: str) -> Provider:
    """The provider of a name; of one with several devices, the first if none is named.

    Raises:
        UsageError: there is none here.
    """
    wanted = name.lower() if isinstance(name, str) else name
    if wanted == CPU:
        return processor()  # without a look at what nobody asked for
    here = all_providers()
    fitting = [one for one in here if wanted in one.names]
    if not fitting:
        names = ", ".join(one.name for one in here)
        hindered = "".join(f"; {what}" for what in hindered_plugins())
        raise UsageError(
            f"there is no provider {name!r} here; there is: {names}{hindered}. Others come with "
            "another build of onnxruntime, or with a plug-in such as onnxruntime-ep-openvino"
        )
    return fitting[0]


def all_providers() -> list[Provider]:
    """The processor's own first, then what else is built in, then plug-ins.

    One with several kinds of devices is several, each with the first device of its kind.
    """
    packages = _plugged_in().packages
    found: dict[str, dict[str, Any]] = {}
    for device in ort.get_ep_devices():
        found.setdefault(device.ep_name, {}).setdefault(_kind(device), device)
    for title in ort.get_available_providers():
        found.setdefault(title, {"": None})
    ours = [
        _of_device(title, device, f":{kind}" if len(kinds) > 1 else "", packages)
        for title, kinds in found.items()
        if title not in (TITLE, REMOTE)
        for kind, device in kinds.items()
    ]
    return [processor(), *sorted(ours, key=lambda provider: provider.plugged_in)]


def hindered_plugins() -> list[str]:
    """Packages that could not be used, and why."""
    return _plugged_in().hindered


def _of_device(title: str, device: Any, kind: str, packages: Mapping[str, str]) -> Provider:
    """Args:
    packages: versions of plug-ins' packages, by their libraries; they tell more than the library.
    """
    known = {} if device is None else device.ep_metadata
    library = known.get(LIBRARY)
    version = packages.get(library, known.get("version", "")) if library else ""
    info = ProviderInfo(f"{_short(title)}{kind}", title, version, _hardware(device))
    return Provider(info, device, library is not None)


class _Plugins(NamedTuple):
    """Attributes:
    packages: versions, by the library that each brings.
    hindered: what could not be used, and why.
    """

    packages: dict[str, str]
    hindered: list[str]


@cache
def _plugged_in() -> _Plugins:
    """Has the runtime load the installed plug-ins, once a process.

    Their packages are named `…-ep-…`, and a function in them tells where the library is.
    """
    found = _Plugins({}, [])
    here = {(one.metadata["Name"] or "").lower().replace("_", "-"): one for one in distributions()}
    for name in sorted(name for name in here if "-ep-" in name):
        try:
            library = import_module(name.replace("-", "_")).get_library_path()
            ort.register_execution_provider_library(name, library)
            found.packages[library] = here[name].version
        except (Exception, SystemExit) as error:  # whatever another's package does, it is not here
            reason = str(error).partition("\n")[0][:200]
            found.hindered.append(f"{name} cannot be used ({reason})")
    return found


def _short(title: str) -> str:
    return title.lower().removesuffix(SUFFIX)


def _hardware(device: Any) -> str:
    if device is None:
        return ""
    found = device.device
    return f"{found.vendor} {_kind(device)} {found.vendor_id:#06x}:{found.device_id:#06x}"


def _kind(device: Any) -> str:
    """cpu, gpu or npu."""
    return str(device.device.type.name).lower()
