"""Where a model runs: threads and execution provider."""

from __future__ import annotations

import os
from dataclasses import dataclass

from edgespec.errors import UsageError, shortened

__all__ = ["CPU", "HERE", "MAX_THREADS", "Device", "ProviderInfo", "drafter_title", "variant_title"]

CPU = "cpu"
# ONNX Runtime starts any number of threads; with many more than cores it takes minutes to answer.
MAX_THREADS = max(16, 4 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Device:
    """Where a model runs.

    Attributes:
        threads: of the processor, 1 to `MAX_THREADS`; None uses all physical cores.
        provider: an execution provider of ONNX Runtime, by its name in `edgespec providers`.

    Raises:
        UsageError: the number of threads is out of range.
    """

    threads: int | None = None
    provider: str = CPU

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise UsageError(
                f"threads is {shortened(self.threads)}; give a whole number from 1 to {MAX_THREADS}"
            )


HERE = Device()  # the processor, all its cores


@dataclass(frozen=True)
class ProviderInfo:
    """An execution provider of ONNX Runtime.

    Attributes:
        name: what users call it.
        title: what ONNX Runtime calls it.
        version: of a plug-in, or of the processor's kernels; empty for a built-in provider.
        hardware: what it runs on; empty if the runtime does not tell.
    """

    name: str
    title: str
    version: str
    hardware: str

    def __str__(self) -> str:
        """All that distinguishes it: measurements of one provider do not apply to another."""
        return " ".join(filter(None, (self.title, self.version, self.hardware)))


def variant_title(variant: str, provider: str) -> str:
    """A variant and where it runs, for people; the processor is not mentioned."""
    return variant if provider == CPU else f"{variant} on {provider}"


def drafter_title(kind: str, variant: str | None, provider: str | None) -> str:
    """A drafter, for people: its kind, and for a model its variant and where it runs."""
    return kind if variant is None else f"{kind} {variant_title(variant, provider or CPU)}"
