"""Where a model runs: threads and execution provider."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CPU", "HERE", "Device", "ProviderInfo", "drafter_title", "variant_title"]

CPU = "cpu"


@dataclass(frozen=True)
class Device:
    """Where a model runs.

    Attributes:
        threads: of the processor; None uses all physical cores.
        provider: an execution provider of ONNX Runtime, by its name in `edgespec providers`.
    """

    threads: int | None = None
    provider: str = CPU


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
