"""Arithmetic over a vocabulary, on one thread, for the loop around the models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_kernels import _laws

__all__ = ["Laws"]

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


class Laws:
    """Functions of contiguous rows of float32."""

    def arg_max(self, row: Floats) -> int:
        """The first place of the largest number, or of one that is none."""
        return _laws.largest(row)

    def exp_weights(self, row: Floats, highest: float, temperature: float, out: Floats) -> float:
        """out = e^((row - highest) / temperature); returns Σ out."""
        return _laws.weigh(row, highest, 1 / temperature, out)

    def nucleus(
        self,
        row: Floats,
        highest: float,
        temperature: float,
        share: float,
        places: Places,
        weights: Floats,
    ) -> int:
        """The fewest places that hold this share of all weight, into `places`, and what they weigh;
        returns how many."""
        return _laws.nucleus(row, highest, 1 / temperature, share, places, weights)

    def draw(self, weights: Floats, uniform: float) -> int:
        """The first place up to which more than this share of all weight lies."""
        return _laws.draw(weights, uniform)

    def excess(self, p: Floats, factor: Any, q: npt.NDArray[Any], places: Places) -> Floats:
        """max(0, factor · p - q): q stands at these places of p, nowhere if they are behind it."""
        left = np.empty_like(p)
        some, where = np.ascontiguousarray(q, np.float32), np.ascontiguousarray(places, np.int64)
        _laws.excess(p, factor, some, where, left)
        return left
