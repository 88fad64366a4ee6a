"""Arithmetic over a vocabulary: by kernels where these are installed, else by numpy.

It runs behind a model's call, which has swept the processor's caches, so numpy's many small steps
cost several times what they compute. Both ways give the same law to a float's rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgespec.kernels import kernels_here

__all__ = ["Arithmetic", "InNumpy", "arithmetic_for"]

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Weights = npt.NDArray[Any]  # floats, or a test's fractions

FLOAT32 = np.dtype(np.float32)
BLOCK = 256  # weights that are added up before a draw looks at each


class Arithmetic(Protocol):
    """Functions of rows."""

    def largest(self, row: Floats) -> int:
        """The first place of the largest number, or of one that is none."""
        ...

    def weigh(self, row: Floats, highest: float, temperature: float, out: Floats) -> float:
        """out = e^((row - highest) / temperature); returns Σ out."""
        ...

    def nucleus(
        self,
        row: Floats,
        highest: float,
        temperature: float,
        share: float,
        places: Places,
        weights: Floats,
    ) -> int:
        """The smallest set of the most probable places that holds this share of all weight, of
        equals the first.

        Args:
            highest: of the row.
            places, weights: as long as the row; what is found comes first in them, by place.

        Returns how many there are.
        """
        ...

    def draw(self, weights: Weights, uniform: float) -> int:
        """The first place up to which more than this share of all weight lies."""
        ...

    def excess(self, p: Weights, factor: Any, q: Weights, places: Places) -> Weights:
        """max(0, factor · p - q): q stands at these places of p, nowhere if they are behind it."""
        ...


class InNumpy:
    """Of rows of any numbers that are added and multiplied."""

    def largest(self, row: Floats) -> int:
        return int(row.argmax())

    def weigh(self, row: Floats, highest: float, temperature: float, out: Floats) -> float:
        np.subtract(row, np.float32(highest), out=out)
        out *= np.float32(1 / temperature)
        return float(_by_blocks(np.exp(out, out=out)).sum())

    def nucleus(
        self,
        row: Floats,
        highest: float,
        temperature: float,
        share: float,
        places: Places,
        weights: Floats,
    ) -> int:
        total = self.weigh(row, highest, temperature, weights)
        # Sorting a whole vocabulary is dear: first what surely holds the share together, a little
        # more of it, so that rounding takes nothing from the exact cut.
        enough = share + min(1e-3, (1 - share) / 2)
        reach = 4.0  # how many e-folds below the largest weight
        while True:
            few = np.flatnonzero(row >= np.float32(highest - temperature * reach))
            heavy = weights[few]
            if heavy.sum(dtype=np.float64) > enough * total or len(few) == len(row):
                break
            reach *= 1.5
        order = np.argsort(-heavy, kind="stable")
        reached = np.cumsum(heavy[order], dtype=np.float64)
        kept = np.sort(order[: int(np.searchsorted(reached, share * total)) + 1])
        count = len(kept)
        places[:count], weights[:count] = few[kept], heavy[kept]
        return count

    def draw(self, weights: Weights, uniform: float) -> int:
        # Along a large vocabulary, first to the block of weights, then within it.
        sums = np.cumsum(_by_blocks(weights))
        point = uniform * sums[-1]
        block = _first_above(sums, point)
        start = block * BLOCK
        before = sums[block - 1] if block else 0
        inside = np.cumsum(weights[start : start + BLOCK], dtype=np.float64)
        return start + _first_above(inside, point - before)

    def excess(self, p: Weights, factor: Any, q: Weights, places: Places) -> Weights:
        left: Weights = factor * p
        left = left.astype(np.result_type(left, q), copy=False)  # one may be 0 and 1
        there = places < len(p)
        left[places[there]] -= q[there]
        return np.maximum(left, 0, out=left)


IN_NUMPY = InNumpy()


def arithmetic_for(row: Weights, *others: Weights) -> Arithmetic:
    """What computes with this row: kernels know float32 without gaps, and no others that float32
    would round."""
    exact = all(other.dtype == FLOAT32 or other.dtype.kind == "i" for other in others)
    if row.dtype == FLOAT32 and row.flags.c_contiguous and exact and kernels_here() is not None:
        return _of_floats()
    return IN_NUMPY


@cache
def _of_floats() -> Arithmetic:
    try:
        from edgespec_kernels.sampling import SamplingKernels
    except ImportError:  # built without Python's headers
        return IN_NUMPY
    return SamplingKernels()


def _by_blocks(weights: Weights) -> npt.NDArray[np.float64]:
    """The sum of each block. Within one, float32's error is a few units of its last place."""
    whole = len(weights) // BLOCK * BLOCK
    sums = weights[:whole].reshape(-1, BLOCK).sum(axis=1)
    return np.append(sums, weights[whole:].sum()).astype(np.float64)


def _first_above(cumulative: npt.NDArray[np.float64], point: float) -> int:
    """Where a running sum first exceeds `point`; rounding can put the point on the total itself,
    which belongs to the last place that has any weight."""
    place = np.searchsorted(cumulative, point, "right")
    last = np.searchsorted(cumulative, cumulative[-1])
    return int(min(place, last))
