"""The only two kinds of random draws in the package.

Everything random goes through `Randomness`. So a test can answer each draw itself, walk every
branch of the shipped loop, and compare the result with the target's distribution in fractions.
"""

from __future__ import annotations

import hashlib
import secrets
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

from edgespec.core.distribution import Distribution
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.errors import UsageError, shortened

__all__ = ["Randomness", "Seeded"]

SEED_BITS = 53  # a JSON reader that has only doubles reads no more


@runtime_checkable
class Randomness(Protocol):
    """A source of random draws."""

    def at(self, emitted: int) -> Randomness:
        """The draws of the round that starts after `emitted` tokens."""
        ...

    def bernoulli(self, probability: Any) -> bool:
        """True with this probability: always from 1 on, never at 0 or below."""
        ...

    def categorical(self, distribution: Distribution) -> int:
        """A token id, drawn with probability proportional to its weight."""
        ...


class Seeded:
    """Counter-based random numbers: a hash of the seed, the round, and the draw's index in it.

    A round is identified by the number of tokens emitted before it. So draws for tokens that were
    rejected leave no trace in later rounds, and the same seed gives the same text. To get the same
    numbers in another language: BLAKE2b with digest size 8 of the text "seed:emitted:draw", read
    as a little-endian integer, of which the upper 53 bits make a number in [0, 1).

    Raises:
        UsageError: the seed is no whole number from 0.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (not isinstance(seed, Integral) or seed < 0):
            raise UsageError(f"seed is {shortened(seed)}; give a whole number from 0")
        self.seed = secrets.randbits(SEED_BITS) if seed is None else int(seed)
        self._emitted = 0
        self._draws = 0

    def at(self, emitted: int) -> Seeded:
        self._emitted = emitted
        self._draws = 0
        return self

    def _uniform(self) -> float:
        """The next number in [0, 1) of this round."""
        name = f"{self.seed}:{self._emitted}:{self._draws}".encode()
        self._draws += 1
        bits = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        return (bits >> 11) * 2.0**-53

    def bernoulli(self, probability: Any) -> bool:
        if probability >= 1 or probability <= 0:  # certain, so nothing is drawn
            return bool(probability > 0)
        return bool(self._uniform() < probability)

    def categorical(self, distribution: Distribution) -> int:
        tokens, weights = distribution.tokens, distribution.probabilities
        if len(tokens) == 1:
            return int(tokens[0])
        return int(tokens[vocab_ops_for(weights).draw(weights, self._uniform())])
