"""Arithmetic over a vocabulary, on one thread, for sampling and verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_kernels import _sampling

__all__ = ["SamplingKernels"]

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


class SamplingKernels:
    """Functions of contiguous rows of float32.

    Raises:
        TypeError: an array has another dtype or gaps.
        ValueError: lengths differ, or a row is empty.
    """

    def arg_max(self, row: Floats) -> int:
        """The index of the first maximum, or of the first NaN."""
        return _sampling.largest(row)

    def exp_weights(self, row: Floats, highest: float, temperature: float, out: Floats) -> float:
        """out = e^((row - highest) / temperature); returns Σ out."""
        return _sampling.weigh(row, highest, 1 / temperature, out)

    def nucleus(
        self,
        row: Floats,
        highest: float,
        temperature: float,
        share: float,
        indices: Indices,
        weights: Floats,
    ) -> int:
        """Top-p: the smallest set of the most probable indices that holds `share` of all weight.

        Writes the set to `indices`, in increasing order, and its weights to `weights`; both are as
        long as the row. Returns the size of the set.
        """
        return _sampling.nucleus(row, highest, 1 / temperature, share, indices, weights)

    def draw(self, weights: Floats, uniform: float) -> int:
        """The first index whose cumulative weight exceeds `uniform` of the total weight."""
        return _sampling.draw(weights, uniform)

    def excess(self, p: Floats, factor: Any, q: npt.NDArray[Any], indices: Indices) -> Floats:
        """max(0, factor · p - q): q[i] belongs to p[indices[i]], or to none if that is ≥ len(p)."""
        out = np.empty_like(p)
        q_row, q_indices = (
            np.ascontiguousarray(q, np.float32),
            np.ascontiguousarray(indices, np.int64),
        )
        _sampling.excess(p, factor, q_row, q_indices, out)
        return out

    def race(
        self, tokens: Indices, weights: Floats, key: tuple[int, int, int, int], reach: float
    ) -> list[tuple[int, float]]:
        """The tokens whose weight / E is at least 1 / reach of the largest, best first.

        E is a token's noise at the position that the key belongs to.
        """
        return _sampling.race(tokens, weights, key, reach)
