"""Walks every random branch of a computation, with exact probabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
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


def exact_distribution(run: Callable[[Scripted], Hashable]) -> dict[Hashable, Fraction]:
    """The distribution of `run`'s result: it is run once for every way its draws can turn out."""
    distribution: dict[Hashable, Fraction] = defaultdict(Fraction)
    script: list[int] | None = []
    while script is not None:
        randomness = Scripted(script)
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
