"""Where a model runs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CPU", "HERE", "Device", "drafted_by", "placed"]

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


def placed(variant: str, provider: str) -> str:
    """A variant and where it runs, for people; the processor goes without saying."""
    return variant if provider == CPU else f"{variant} on {provider}"


def drafted_by(kind: str, variant: str | None, provider: str | None) -> str:
    """What drafts, for people: its kind, and of a model the variant and where it runs."""
    return kind if variant is None else f"{kind} {placed(variant, provider or CPU)}"
