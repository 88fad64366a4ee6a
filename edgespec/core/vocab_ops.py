"""Operations over a whole vocabulary: by kernels where these are installed, else by numpy.

They run right after a model's call, which has swept the processor's caches: numpy's many small
steps then cost several times what they compute. Both ways agree up to a float's rounding.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import (
    AnyArray,
    Logits,
    Number,
    Probabilities,
    QIndices,
    QProbabilities,
    TokenIds,
    VocabIndices,
)
from edgespec.core.position_noise import Arrival, NoiseKey, race
from edgespec.device.kernels import installed_kernels

__all__ = ["NumpyVocabOps", "VocabOps", "vocab_ops_for"]

FLOAT32 = np.dtype(np.float32)
BLOCK = 256  # a draw adds up blocks of weights first, then looks into one block


@runtime_checkable
class VocabOps(Protocol):
    """Operations on rows as long as the vocabulary."""

    def arg_max(self, row: Logits) -> int:
        """Index of the first maximum, or of the first NaN."""
        ...

    def exp_weights(self, row: Logits, highest: float, temperature: float, out: Logits) -> float:
        """out = exp((row - highest) / temperature); returns Σ out."""
        ...

    def nucleus(
        self,
        row: Logits,
        highest: float,
        temperature: float,
        share: float,
        indices: VocabIndices,
        weights: Logits,
    ) -> int:
        """The smallest set of most probable tokens that holds `share` of all weight (top-p).

        Of equal weights, the first indices come first.

        Args:
            highest: maximum of the row.
            indices, weights: outputs, as long as the row; the set is written to their beginning,
                by increasing index.

        Returns the size of the set.
        """
        ...

    def draw(self, weights: Probabilities, uniform: float) -> int:
        """The first index at which the cumulative weight exceeds uniform · Σ weights."""
        ...

    def excess(
        self, p: Probabilities, factor: Number, q: QProbabilities, indices: QIndices
    ) -> Probabilities:
        """max(0, factor · p − q), [k]: q[i] belongs to p[indices[i]], or to none if that is ≥ k."""
        ...

    def race(
        self, tokens: TokenIds, weights: Probabilities, key: NoiseKey, reach: float
    ) -> list[Arrival]:
        """`edgespec.core.position_noise.race`."""
        ...


class NumpyVocabOps:
    """`VocabOps` in numpy, for any numbers that can be added and multiplied."""

    def arg_max(self, row: Logits) -> int:
        return int(row.argmax())

    def exp_weights(self, row: Logits, highest: float, temperature: float, out: Logits) -> float:
        np.subtract(row, np.float32(highest), out=out)
        out *= np.float32(1 / temperature)
        return float(_block_sums(np.exp(out, out=out)).sum())

    def nucleus(
        self,
        row: Logits,
        highest: float,
        temperature: float,
        share: float,
        indices: VocabIndices,
        weights: Logits,
    ) -> int:
        total = self.exp_weights(row, highest, temperature, weights)
        # Sorting a whole vocabulary is slow. Sort only tokens that surely hold the share together,
        # and a little more of it, so that rounding cannot change the cut.
        enough = share + min(1e-3, (1 - share) / 2)
        reach = 4.0  # e-folds below the largest weight
        while True:
            few = np.flatnonzero(row >= np.float32(highest - temperature * reach))
            heavy = weights[few]
            if heavy.sum(dtype=np.float64) > enough * total or len(few) == len(row):
                break
            reach *= 1.5
        order = np.argsort(-heavy, kind="stable")
        reached = np.cumsum(heavy[order], dtype=np.float64)
        chosen = np.sort(order[: int(np.searchsorted(reached, share * total)) + 1])
        count = len(chosen)
        indices[:count], weights[:count] = few[chosen], heavy[chosen]
        return count

    def draw(self, weights: Probabilities, uniform: float) -> int:
        sums = np.cumsum(_block_sums(weights))
        point = uniform * sums[-1]
        block = _first_above(sums, point)
        start = block * BLOCK
        before = sums[block - 1] if block else 0
        inside = np.cumsum(weights[start : start + BLOCK], dtype=np.float64)
        return start + _first_above(inside, point - before)

    def excess(
        self, p: Probabilities, factor: Number, q: QProbabilities, indices: QIndices
    ) -> Probabilities:
        left: Probabilities = factor * p
        left = left.astype(np.result_type(left, q), copy=False)  # a one-hot q holds integers
        present = indices < len(p)
        left[indices[present]] -= q[present]
        return np.maximum(left, 0, out=left)

    def race(
        self, tokens: TokenIds, weights: Probabilities, key: NoiseKey, reach: float
    ) -> list[Arrival]:
        return race(tokens, weights, key, reach)


def _kernel_ops() -> VocabOps | None:
    if installed_kernels() is None:
        return None
    try:
        from edgespec_kernels.sampling_kernels import SamplingKernels
    except ImportError:  # the kernels were built without Python's headers
        return None
    return SamplingKernels()


NUMPY = NumpyVocabOps()
KERNELS = _kernel_ops()  # decided once, when edgespec is imported


def vocab_ops_for(row: AnyArray, *others: AnyArray) -> VocabOps:
    """The operations to use on these rows.

    Kernels take a contiguous float32 row, with further rows of float32 or integers; numpy takes
    everything else, such as fractions and float64.
    """
    if KERNELS is None or row.dtype != FLOAT32 or not row.flags.c_contiguous:
        return NUMPY
    exact = all(other.dtype == FLOAT32 or other.dtype.kind == "i" for other in others)
    return KERNELS if exact else NUMPY


def _block_sums(weights: Probabilities) -> npt.NDArray[np.float64]:
    """The sum of each block of weights; within one, float32's error is a few units in the
    last digit."""
    whole = len(weights) // BLOCK * BLOCK
    sums = weights[:whole].reshape(-1, BLOCK).sum(axis=1)
    return np.append(sums, weights[whole:].sum()).astype(np.float64)


def _first_above(cumulative: npt.NDArray[np.float64], point: float) -> int:
    """The first index at which a cumulative sum exceeds `point`.

    Rounding can put the point on the total itself; it then belongs to the last index with any
    weight.
    """
    index = np.searchsorted(cumulative, point, "right")
    last = np.searchsorted(cumulative, cumulative[-1])
    return int(min(index, last))
