"""A table of random numbers, which gives two implementations of the loop the same ones.

A round that starts after e emitted tokens reads row e of the table. In that row the k-th accept
decision reads uniform k, and the k-th drawn token (the drafted tokens in order, then the round's
last token) reads noise row k. Every decision has its own entry, even if its outcome was certain, so
a last-digit difference in one decision does not change the numbers of the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.distribution import Distribution

__all__ = ["DrawTable", "TableRandomness"]


@dataclass(frozen=True)
class DrawTable:
    """The random numbers of one text.

    A token is drawn by a race: token i arrives at time E_i / w_i, with E_i standard exponential
    and w_i its weight; the first to arrive wins, with probability w_i / Σw. Two implementations
    differ only where the two earliest arrivals are as close as rounding. An inverse cumulative sum
    would have such a boundary between any two tokens of the vocabulary.

    Attributes:
        uniforms: float32 [positions, γ], in [0, 1).
        noise: float32 [positions, γ + 1, V], standard exponential.
    """

    uniforms: npt.NDArray[np.float32]
    noise: npt.NDArray[np.float32]

    @classmethod
    def draw(cls, seed: int, positions: int, gamma: int, vocab_size: int) -> DrawTable:
        generator = np.random.default_rng(seed)
        return cls(
            generator.random((positions, gamma), np.float32),
            generator.standard_exponential((positions, gamma + 1, vocab_size), np.float32),
        )


class TableRandomness:
    """An `edgespec.core.randomness.Randomness` that reads a table.

    Attributes:
        closest: the narrowest margin of a decision in this round so far: the distance of a uniform
            from its probability, or the log ratio of the two earliest arrivals. Only a narrow
            margin can explain that two implementations decide differently.
    """

    def __init__(self, table: DrawTable) -> None:
        self._table = table
        self.at(0)

    def at(self, emitted: int) -> TableRandomness:
        """Moves to the round that starts after `emitted` tokens."""
        self._row = emitted
        self._bernoullis = 0
        self._categoricals = 0
        self.closest = math.inf
        return self

    def bernoulli(self, probability: float | np.floating) -> bool:
        uniform = float(self._table.uniforms[self._row, self._bernoullis])
        self._bernoullis += 1
        self.closest = min(self.closest, abs(uniform - float(probability)))
        return bool(uniform < probability)

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        noise = self._table.noise[self._row, self._categoricals][distribution.tokens]
        self._categoricals += 1
        with np.errstate(divide="ignore"):  # a token without weight never arrives
            arrivals = noise / distribution.probabilities
        if len(arrivals) > 1:
            first, second = np.partition(arrivals, 1)[:2]
            self.closest = min(self.closest, math.log(second / first))
        return int(distribution.tokens[arrivals.argmin()])
