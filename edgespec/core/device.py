"""Where a model runs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CPU", "HERE", "Device", "ProviderInfo", "drafted_by", "placed"]

CPU = "cpu"


@dataclass(frozen=True)
class Device:
    """Attributes:
    threads: of the processor; None takes the physical cores.
    provider: an execution provider of ONNX Runtime, as `edgespec providers` names it.
    """

    threads: int | None = None
    provider: str = CPU


HERE = Device()  # the processor, all its cores


@dataclass(frozen=True)
class ProviderInfo:
    """Attributes:
    name: what users call an execution provider.
    title: what ONNX Runtime calls it.
    version: of a plug-in, or of the kernels that the processor's has; empty for what is built in.
    hardware: what it runs on; empty where the runtime does not tell.
    """

    name: str
    title: str
    version: str
    hardware: str

    def __str__(self) -> str:
        """All that tells it from another: what was measured on it says nothing about that one."""
        return " ".join(filter(None, (self.title, self.version, self.hardware)))


def placed(variant: str, provider: str) -> str:
    """A variant and where it runs, for people; the processor goes without saying."""
    return variant if provider == CPU else f"{variant} on {provider}"


def drafted_by(kind: str, variant: str | None, provider: str | None) -> str:
    """What drafts, for people: its kind, and of a model the variant and where it runs."""
    return kind if variant is None else f"{kind} {placed(variant, provider or CPU)}"
