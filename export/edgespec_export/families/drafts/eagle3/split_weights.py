"""Matrices that read two rows side by side, as two matrices that read one each."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights, read_rows

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
        matrices: names of those that are split.
        label: name of the checkpoint, for messages.
    """

    def __init__(self, weights: Weights, matrices: Collection[str], label: str) -> None:
        self._weights = weights
        self._label = label
        self._matrices = frozenset(matrices)
        self._halves = {
            half(name, part): (name, number)
            for name in matrices
            for number, part in enumerate((TOKEN, STATE))
        }

    def names(self) -> list[str]:
        stored = set(self._weights.names())
        halves = {name for name, (whole, _) in self._halves.items() if whole in stored}
        return sorted(stored - self._matrices | halves)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape.

        Raises:
            EdgespecError: there is no such tensor, or it has no halves.
        """
        if name not in self._halves:
            return self._weights.shape(name)
        whole, _ = self._halves[name]
        shape = self._weights.shape(whole)
        if len(shape) != 2 or shape[1] % 2:
            raise EdgespecError(
                f"{self._label}: tensor {whole!r} is {list(shape)}, and not a matrix that reads "
                "token and state side by side; download it again"
            )
        return (shape[0], shape[1] // 2)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name not in self._halves:
            return self._weights.read(name)
        whole, number = self._halves[name]
        return _columns(self._weights.read(whole), number)

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if name not in self._halves:
            return read_rows(self._weights, name, start, stop)
        whole, number = self._halves[name]
        return _columns(read_rows(self._weights, whole, start, stop), number)


def _columns(rows: npt.NDArray[np.generic], number: int) -> npt.NDArray[np.generic]:
    """The first or the second half of the columns."""
    return np.ascontiguousarray(np.split(rows, 2, axis=1)[number])
