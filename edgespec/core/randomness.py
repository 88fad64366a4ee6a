"""The only two random draws in the package.

Everything random goes through `Randomness`, so that a test can answer each draw itself, walk every
branch of the shipped loop and compare the outcome with the target's distribution in exact fractions.
"""

from __future__ import annotations

import hashlib
import secrets
from numbers import Integral
from typing import Any, Protocol

from edgespec.core.distribution import Distribution
from edgespec.core.vocab_ops import arithmetic_for
from edgespec.errors import UsageError

__all__ = ["Randomness", "Seeded"]

SEED_BITS = 53  # what readers of JSON that know only doubles keep


class Randomness(Protocol):
    def at(self, emitted: int) -> Randomness:
        """The draws of the round that starts after `emitted` tokens."""
        ...

    def bernoulli(self, probability: Any) -> bool:
        """True with the given probability; at least 1 is certain, at most 0 impossible."""
        ...

    def categorical(self, distribution: Distribution) -> int:
        """A token, with probability proportional to its weight."""
        ...


class Seeded:
    """A number for every draw: a hash of the seed, the round and the draw's place in it.

    The round is named by the number of tokens emitted before it, so draws spent on tokens that
    verification threw away leave no trace in later rounds, and the same seed gives the same text.
    A reader in another language gets the same numbers: the first 8 bytes of BLAKE2b (digest size 8)
    of the text "seed:emitted:draw", little-endian, of which 53 bits make a number in [0, 1).
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (not isinstance(seed, Integral) or seed < 0):
            raise UsageError(f"seed is {seed!r}; give a whole number from 0")
        self.seed = secrets.randbits(SEED_BITS) if seed is None else seed
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
        if probability >= 1 or probability <= 0:  # certain: nothing to draw
            return bool(probability > 0)
        return bool(self._uniform() < probability)

    def categorical(self, distribution: Distribution) -> int:
        tokens, weights = distribution.tokens, distribution.probabilities
        if len(tokens) == 1:
            return int(tokens[0])
        return int(tokens[arithmetic_for(weights).draw(weights, self._uniform())])
