"""The machine that a measurement was made on: a record with a digest, and a sentence for people."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import onnxruntime as ort

from edgespec.device.device import Device
from edgespec_runtimes.ort.processor.flash_attention import attention_setting
from edgespec_runtimes.ort.providers import CPU_TITLE, find_provider

__all__ = ["Machine", "machine_of"]

# What /proc/cpuinfo says about a processor, on x86 and on ARM.
PROCESSOR_FIELDS = (
    *("model name", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision", "Features"),
)


@dataclass(frozen=True)
class Machine:
    """Everything that decides which kernels run a model, and so which bits they compute.

    Attributes:
        runtime: ONNX Runtime, its version, and the setting of its attention if it is not the
            runtime's own.
        provider, provider_version, hardware: see `ProviderInfo`; the version of the processor's
            provider is the build of edgespec's kernels.
        threads: None is the runtime's default for this number of `cores`.
        cores: of the processor; None where the number of threads is given.
        architecture: of the processor, such as "x86_64".
        processor: its name, for people.
        processor_features: digest of its model and instruction sets.
        draft: of a measurement that a draft model was part of and that ran elsewhere.
    """

    runtime: str
    provider: str
    provider_version: str
    hardware: str
    threads: int | None
    cores: int | None
    architecture: str
    processor: str
    processor_features: str
    draft: Machine | None = None

    @property
    def kernels(self) -> str:
        """Name and version of edgespec's kernels; empty if there are none."""
        return self.provider_version if self.provider == CPU_TITLE else ""

    @property
    def digest(self) -> str:
        """SHA-256 of the record: measurements are trusted where it is the same."""
        record = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(record.encode()).hexdigest()

    def __str__(self) -> str:
        """The machine in a sentence. No decision may depend on its words."""
        provider = " ".join(filter(None, (self.provider, self.provider_version, self.hardware)))
        threads = (
            f"{self.threads} threads" if self.threads else f"default threads of {self.cores} cores"
        )
        processor = f"{self.architecture} {self.processor} #{self.processor_features[:8]}"
        sentence = f"{self.runtime} {provider}, {threads}, {processor}"
        return sentence if self.draft is None else f"{sentence}; draft: {self.draft}"


def machine_of(device: Device, draft_device: Device | None = None) -> Machine:
    """The machine as a device of it runs models.

    Args:
        draft_device: of a measurement that a draft model is part of.

    Raises:
        UsageError: there is no such provider here.
    """
    info = find_provider(device.provider).info
    name, features = _processor()
    return Machine(
        runtime=" ".join(filter(None, ("onnxruntime", ort.__version__, attention_setting()))),
        provider=info.title,
        provider_version=info.version,
        hardware=info.hardware,
        threads=device.threads,
        cores=os.cpu_count() if device.threads is None else None,
        architecture=platform.machine(),
        processor=name,
        processor_features=features,
        draft=None if draft_device in (None, device) else machine_of(draft_device),
    )


def _processor() -> tuple[str, str]:
    """A processor's name, which a virtual machine may shorten and ARM lacks, and the digest of its
    model and instruction sets."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = ""
    lines = (line.partition(":") for line in first.splitlines())
    known = {key.strip(): value.strip() for key, _, value in lines}
    fields = [known.get(key, "") for key in PROCESSOR_FIELDS] if known else [platform.version()]
    name = known.get("model name") or platform.processor() or "processor"
    return name, hashlib.sha256(" ".join(fields).encode()).hexdigest()
