"""Matrices that read two rows side by side, as two matrices that read one each."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights

__all__ = ["STATE", "TOKEN", "SplitWeights", "half"]

# What the first and the second half of the columns read.
TOKEN = "token"
STATE = "state"


def half(matrix: str, part: str) -> str:
    """Name of a half of the matrix `….weight`."""
    return f"{matrix.removesuffix('.weight')}.{part}.weight"


class SplitWeights:
    """A checkpoint's `Weights` in which some matrices [out, 2 · width] are two [out, width].

    W · [a; b] = W₁ · a + W₂ · b, and the rows a and b have norms of their own: number formats fold
    each norm into its half, and rotate each half with what it reads.

    Args:
        matrices: those that are split, where the checkpoint has them.
    """

    def __init__(self, weights: Weights, matrices: Collection[str]) -> None:
        self._weights = weights
        self._halves = {
            half(name, part): (name, number)
            for name in set(matrices).intersection(weights.names())
            for number, part in enumerate((TOKEN, STATE))
        }

    def names(self) -> list[str]:
        split = {name for name, _ in self._halves.values()}
        return sorted({*self._weights.names(), *self._halves} - split)

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._halves:
            return self._weights.shape(name)
        *rows, columns = self._weights.shape(self._halves[name][0])
        return (*rows, columns // 2)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name not in self._halves:
            return self._weights.read(name)
        whole, number = self._halves[name]
        return np.ascontiguousarray(np.split(self._weights.read(whole), 2, axis=1)[number])
