"""Where a model runs."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.errors import UsageError, shortened

__all__ = ["CPU", "HERE", "MAX_THREADS", "Device", "ProviderInfo", "drafted_by", "placed"]

CPU = "cpu"
MAX_THREADS = 1024  # ONNX Runtime starts as many as it is told, for minutes


@dataclass(frozen=True)
class Device:
    """Where a model runs.

    Attributes:
        threads: of the processor, 1 to `MAX_THREADS`; None takes the physical cores.
        provider: an execution provider of ONNX Runtime, as `edgespec providers` names it.

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
