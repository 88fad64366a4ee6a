"""Which matrices of a checkpoint are multiplied with one input."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear:
    """Matrices [out, in] of a checkpoint that have the same input.

    Attributes:
        weights: names of the matrices.
        biases: names of their biases, as many as matrices, or none.
        widths: widths of the outputs, where one matrix holds several; by default each matrix has
            one output.
    """

    weights: tuple[str, ...]
    biases: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()

    @classmethod
    def named(cls, *names: str, bias: bool = False, widths: tuple[int, ...] = ()) -> Linear:
        """The matrices `name.weight` and, if there is a bias, `name.bias`."""
        weights = tuple(f"{name}.weight" for name in names)
        return cls(weights, tuple(f"{name}.bias" for name in names) if bias else (), widths)
