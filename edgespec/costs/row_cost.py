"""What one more position costs in a call of a target, by the number format of its weights."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RowCost"]


@dataclass(frozen=True)
class RowCost:
    """What one more position costs, in plain steps.

    A number format says it (`edgespec_export.quantization.formats`), the manifest carries it, and a
    device that was not measured estimates by it. The defaults are for formats that say nothing.

    Attributes:
        marginal: without kernels.
        marginal_with_kernels: with them, in addition to a fixed time (`cost_model.ROW_BYTES`).
        arithmetic: with kernels, a position's arithmetic, which binds calls of many positions; 0 if
            it is not known.
        arithmetic_on: the same by instruction set, where it was measured to differ ("avx2").
    """

    marginal: float = 0.045
    marginal_with_kernels: float = 0.045
    arithmetic: float = 0.0
    arithmetic_on: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = (self.marginal, self.marginal_with_kernels, self.arithmetic)
        for number in (*numbers, *self.arithmetic_on.values()):
            if not 0 <= number <= 1:
                raise ValueError(f"a position costs {number} steps, not 0 to 1")

    def arithmetic_with(self, kernels: str) -> float:
        """A position's arithmetic with the kernels of an instruction set."""
        return self.arithmetic_on.get(kernels, self.arithmetic)
