"""Which execution providers ONNX Runtime has on this machine, and what they are called here.

Some are built into the installed runtime. Others are plug-ins: packages such as
`onnxruntime-ep-openvino`, which bring a library that the runtime loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import distributions
from typing import Any

import onnxruntime as ort

from edgespec.device import CPU
from edgespec.errors import UsageError

__all__ = ["PROCESSOR", "Provider", "find_provider", "providers"]

SUFFIX = "executionprovider"  # of most titles
LIBRARY = "library_path"  # in what the runtime knows of a plug-in's device
REMOTE = "AzureExecutionProvider"  # hands its work to a server


@dataclass(frozen=True)
class Provider:
    """Attributes:
    name: what users call it: "cpu", "openvino", or "openvino:gpu" where it has several devices.
    title: what ONNX Runtime calls it.
    version: of a plug-in, else empty: the runtime's own.
    device: of a plug-in, the `OrtEpDevice` it runs on; None for what is built in.
    """

    name: str
    title: str
    version: str = ""
    device: Any = None

    @property
    def hardware(self) -> str:
        """What a plug-in runs on; empty for what is built in."""
        if self.device is None:
            return ""
        found = self.device.device
        return f"{found.vendor} {_kind(self.device)} {found.vendor_id:#06x}:{found.device_id:#06x}"

    @property
    def names(self) -> tuple[str, ...]:
        """All that it answers to."""
        short = _short(self.title)
        return (short,) if self.device is None else (short, f"{short}:{_kind(self.device)}")

    def __str__(self) -> str:
        """All that tells it from another: what it measured says nothing about that one."""
        return " ".join(filter(None, (self.title, self.version, self.hardware)))


PROCESSOR = Provider(CPU, "CPUExecutionProvider")


def find_provider(name: str) -> Provider:
    """The provider of a name; of one with several devices, the first if none is named.

    Raises:
        UsageError: there is none here.
    """
    wanted = name.lower()
    if wanted == CPU:
        return PROCESSOR  # without a look at what nobody asked for
    here = providers()
    fitting = [one for one in here if wanted in one.names]
    if not fitting:
        names = ", ".join(one.name for one in here)
        hindered = "".join(f"; {what}" for what in _plugged_in())
        raise UsageError(
            f"there is no provider {name!r} here; there is: {names}{hindered}. Others come with "
            "another build of onnxruntime, or with a plug-in such as onnxruntime-ep-openvino"
        )
    return fitting[0]


def providers() -> list[Provider]:
    """All of them, the processor's own first."""
    _plugged_in()
    return [PROCESSOR, *_built_in(), *_plugins()]


def _built_in() -> list[Provider]:
    """What else the installed runtime was built with."""
    others = {PROCESSOR.title, REMOTE} | {device.ep_name for device in _plugin_devices()}
    titles = [title for title in ort.get_available_providers() if title not in others]
    return [Provider(_short(title), title) for title in titles]


def _plugins() -> list[Provider]:
    """One for each kind of device, the first of its kind."""
    found: dict[str, dict[str, Any]] = {}
    for device in _plugin_devices():
        found.setdefault(device.ep_name, {}).setdefault(_kind(device), device)
    return [
        Provider(
            name=f"{_short(title)}:{kind}" if len(kinds) > 1 else _short(title),
            title=title,
            version=device.ep_metadata.get("version", ""),
            device=device,
        )
        for title, kinds in found.items()
        for kind, device in kinds.items()
    ]


def _plugin_devices() -> list[Any]:
    return [device for device in ort.get_ep_devices() if LIBRARY in device.ep_metadata]


@cache
def _plugged_in() -> list[str]:
    """Has the runtime load the installed plug-ins, once a process; says what hindered any.

    Their packages are named `…-ep-…`, and a function in them tells where the library is.
    """
    hindered = []
    names = {(found.metadata["Name"] or "").lower().replace("_", "-") for found in distributions()}
    for name in sorted(name for name in names if "-ep-" in name):
        try:
            library = import_module(name.replace("-", "_")).get_library_path()
            ort.register_execution_provider_library(name, library)
        except Exception as error:  # whatever another's package does, it is not here
            hindered.append(f"{name} cannot be used ({str(error).partition(chr(10))[0][:200]})")
    return hindered


def _short(title: str) -> str:
    return title.lower().removesuffix(SUFFIX)


def _kind(device: Any) -> str:
    """cpu, gpu or npu."""
    return str(device.device.type.name).lower()
