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
from edgespec.core.position_noise import Arrival, noise_key
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.errors import UsageError, shortened

__all__ = ["Coupled", "Randomness", "Seeded"]

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

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        """A token id, drawn with probability proportional to its weight.

        Args:
            ahead: how many tokens of the round come before this one: 0 for its first.
        """
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

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        tokens, weights = distribution.tokens, distribution.probabilities
        if len(tokens) == 1:
            return int(tokens[0])
        return int(tokens[vocab_ops_for(weights).draw(weights, self._uniform())])


class Coupled(Seeded):
    """Tokens chosen by the noise of their position (`edgespec.core.position_noise`).

    Whoever asks for a position's token uses the same noise, and does so again the next time: the
    target's choice does not depend on what was drafted, and a draft close to the target makes the
    same choice. A position is the number of tokens before it, the prompt's and the emitted ones,
    so the answers of a conversation share no noise.

    Args:
        seed: as for `Seeded`.
        prompt_tokens: number of tokens of the prompt.
    """

    # For `ranked`: how much slower than the first its last token may be, and the power of speeds
    # whose shares are right most often (docs/measurements/drafting.md).
    REACH = 64.0
    POWER = 0.6

    def __init__(self, seed: int | None, prompt_tokens: int) -> None:
        super().__init__(seed)
        self._prompt_tokens = prompt_tokens

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        if len(distribution.tokens) == 1:
            return int(distribution.tokens[0])
        ((token, _),) = self._race(distribution, ahead, reach=1.0)
        return token

    def ranked(self, distribution: Distribution, ahead: int) -> list[tuple[int, float]]:
        """The token that `categorical` chooses, then those that a similar distribution would.

        Each comes with a guess of the probability that such a distribution, the target's, chooses
        it: its share of a power of all speeds in the race.
        """
        arrivals = [
            (token, speed**self.POWER)
            for token, speed in self._race(distribution, ahead, self.REACH)
        ]
        total = sum(power for _, power in arrivals)
        return [(token, power / total) for token, power in arrivals]

    def _race(self, distribution: Distribution, ahead: int, reach: float) -> list[Arrival]:
        position = self._prompt_tokens + self._emitted + ahead
        tokens, weights = distribution.tokens, distribution.probabilities
        return vocab_ops_for(weights).race(tokens, weights, noise_key(self.seed, position), reach)
