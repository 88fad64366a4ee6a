"""Random numbers written down, so that two implementations of a loop can be given the same ones.

A round that starts after e emitted tokens reads row e of the table. In it the k-th accept decision
reads uniform k, and the k-th drawn token (the drafted ones in order, then the round's last) reads
noise row k. Every decision has its own place, whether its outcome was certain or not: a last-digit
difference in one decision does not move the numbers of the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.core.distribution import Distribution

__all__ = ["DrawTable", "TableRandomness"]


@dataclass(frozen=True)
class DrawTable:
    """The draws of one text.

    A token is drawn by a race: token i arrives at time E_i / w_i, with E_i standard exponential
    and w_i its weight, and the first one wins with probability w_i / Σw. Two implementations then
    differ only where the two first arrivals are as close as rounding; with an inverse cumulative
    sum each of a vocabulary's boundaries would be such a place.

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
        closest: the narrowest decision of the round so far: how far a uniform was from the
            probability, or the log ratio of the two first arrivals. Differences between two
            implementations are explained by it or not at all.
    """

    def __init__(self, table: DrawTable) -> None:
        self._table = table
        self.at(0)

    def at(self, emitted: int) -> TableRandomness:
        self._row = emitted
        self._bernoullis = 0
        self._categoricals = 0
        self.closest = math.inf
        return self

    def bernoulli(self, probability: Any) -> bool:
        uniform = float(self._table.uniforms[self._row, self._bernoullis])
        self._bernoullis += 1
        self.closest = min(self.closest, abs(uniform - float(probability)))
        return bool(uniform < probability)

    def categorical(self, distribution: Distribution) -> int:
        noise = self._table.noise[self._row, self._categoricals][distribution.tokens]
        self._categoricals += 1
        with np.errstate(divide="ignore"):  # a token without weight never arrives
            arrivals = noise / distribution.probabilities
        if len(arrivals) > 1:
            first, second = np.partition(arrivals, 1)[:2]
            self.closest = min(self.closest, math.log(second / first))
        return int(distribution.tokens[arrivals.argmin()])
