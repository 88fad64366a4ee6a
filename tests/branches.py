"""Walks every random branch of a computation, with exact probabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from edgespec.core.distribution import Distribution


class Scripted:
    """A `Randomness` whose draws are answered by a script, then by the first possible outcome."""

    def __init__(self, script: list[int]) -> None:
        self._script = script
        self.taken: list[tuple[int, int]] = []  # (branch, number of branches) of each draw
        self.probability = Fraction(1)

    def at(self, emitted: int) -> Scripted:
        return self

    def bernoulli(self, probability: Any) -> bool:
        probability = min(max(Fraction(probability), Fraction(0)), Fraction(1))
        return self._branch([(True, probability), (False, 1 - probability)])

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        weights = [Fraction(weight) for weight in distribution.probabilities]
        total = sum(weights)
        assert total > 0, "nothing to draw from"
        return self._branch(
            [(int(t), w / total) for t, w in zip(distribution.tokens, weights, strict=True)]
        )

    def _branch(self, outcomes: list[tuple[Any, Fraction]]) -> Any:
        possible = [(outcome, probability) for outcome, probability in outcomes if probability > 0]
        index = len(self.taken)
        branch = self._script[index] if index < len(self._script) else 0
        self.taken.append((branch, len(possible)))
        outcome, probability = possible[branch]
        self.probability *= probability
        return outcome


class NoiseTable(Scripted):
    """A `Randomness` with one draw for each position, shared by all who ask for its token.

    The draw is a number in [0, 1), and a token is chosen where the cumulative probability exceeds
    it: with exactly its probability, and often the same one for similar distributions. The number
    is one of a few intervals, since nothing else matters.

    Args:
        cuts: all cumulative probabilities of the distributions that can be asked for.
    """

    def __init__(self, script: list[int], cuts: Iterable[Fraction]) -> None:
        super().__init__(script)
        bounds = sorted({Fraction(0), Fraction(1), *cuts})
        self._intervals = [(low, high - low) for low, high in pairwise(bounds)]
        self._numbers: dict[int, Fraction] = {}
        self._emitted = 0

    def at(self, emitted: int) -> NoiseTable:
        self._emitted = emitted
        return self

    def position(self, ahead: int) -> int:
        return self._emitted + ahead

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        position = self.position(ahead)
        if position not in self._numbers:
            self._numbers[position] = self._branch(self._intervals)
        point = self._numbers[position] * sum(distribution.probabilities)
        reached = Fraction(0)
        for token, weight in zip(distribution.tokens, distribution.probabilities, strict=True):
            reached += weight
            if reached > point:
                return int(token)
        raise AssertionError("nothing to draw from")


def exact_distribution(
    run: Callable[[Any], Hashable], make: Callable[[list[int]], Scripted] = Scripted
) -> dict[Hashable, Fraction]:
    """The distribution of `run`'s result: it is run once for every way its draws can turn out.

    Args:
        make: makes the randomness from a script.
    """
    distribution: dict[Hashable, Fraction] = defaultdict(Fraction)
    script: list[int] | None = []
    while script is not None:
        randomness = make(script)
        distribution[run(randomness)] += randomness.probability
        script = _next_script(randomness.taken)
    assert sum(distribution.values()) == 1
    return dict(distribution)


def _next_script(taken: list[tuple[int, int]]) -> list[int] | None:
    while taken:
        branch, branches = taken.pop()
        if branch + 1 < branches:
            return [earlier for earlier, _ in taken] + [branch + 1]
    return None
