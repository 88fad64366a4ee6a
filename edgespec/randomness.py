"""The only two random draws in the package.

Everything random goes through `Randomness`, so that a test can answer each draw itself, walk every
branch of the shipped loop and compare the outcome with the target's law in exact fractions.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgespec.distribution import Distribution
from edgespec.errors import UsageError

__all__ = ["Randomness", "Seeded"]

BLOCK = 256


class Randomness(Protocol):
    def at(self, emitted: int) -> Randomness:
        """The draws of the round that starts after `emitted` tokens."""

    def bernoulli(self, probability: Any) -> bool:
        """True with the given probability; at least 1 is certain, at most 0 impossible."""

    def categorical(self, distribution: Distribution) -> int:
        """A token, with probability proportional to its weight."""


class Seeded:
    """Draws from numpy's generator; every round has a stream of its own.

    The stream is a function of the seed and of the number of tokens emitted before the round, so
    draws spent on tokens that verification threw away leave no trace in later rounds, and the same
    seed gives the same text.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and seed < 0:
            raise UsageError(f"seed is {seed}; give 0 or a larger number")
        self.seed = int(np.random.default_rng().integers(2**63)) if seed is None else seed
        self._key = np.random.SeedSequence(self.seed).generate_state(2, np.uint64)
        self._emitted = 0
        self._stream: np.random.Generator | None = None

    def at(self, emitted: int) -> Seeded:
        self._emitted = emitted
        self._stream = None
        return self

    def _uniform(self) -> float:
        """The next number in [0, 1) of this round."""
        if self._stream is None:  # greedy rounds never come here
            # The second word of the counter keeps rounds 2**64 draws apart.
            counter = [0, self._emitted, 0, 0]
            self._stream = np.random.Generator(np.random.Philox(key=self._key, counter=counter))
        return self._stream.random()

    def bernoulli(self, probability: Any) -> bool:
        if probability >= 1 or probability <= 0:  # certain: nothing to draw
            return bool(probability > 0)
        return bool(self._uniform() < probability)

    def categorical(self, distribution: Distribution) -> int:
        tokens, weights = distribution.tokens, distribution.probabilities
        if len(tokens) == 1:
            return int(tokens[0])
        # Along a large vocabulary, first to the block of weights, then within it.
        starts = np.arange(0, len(weights), BLOCK)
        sums = np.cumsum(np.add.reduceat(weights, starts))
        point = self._uniform() * sums[-1]
        block = _first_above(sums, point)
        start = int(starts[block])
        before = sums[block - 1] if block else 0
        inside = np.cumsum(weights[start : start + BLOCK])
        return int(tokens[start + _first_above(inside, point - before)])


def _first_above(cumulative: npt.NDArray[np.float64], point: float) -> int:
    """Where a running sum first exceeds `point`; rounding can put the point on the total itself,
    which belongs to the last place that has any weight."""
    place = np.searchsorted(cumulative, point, "right")
    last = np.searchsorted(cumulative, cumulative[-1])
    return int(min(place, last))
