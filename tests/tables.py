"""A `Model` that is a table of laws, in place of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from edgespec.core.distribution import Distribution
from edgespec.core.model import Sibling

Law = Callable[[tuple[int, ...]], Sequence[Fraction]]


class TableModel:
    """Returns laws where a network returns logits; `as_law` is the processor that goes with it."""

    seconds = 0.0

    def __init__(self, law: Law, vocab_size: int = 3, capacity: int = 64) -> None:
        self.law = law
        self.vocab_size = vocab_size
        self.capacity = capacity
        self.calls = 0
        self._cache: list[int] = []

    @property
    def length(self) -> int:
        return len(self._cache)

    @property
    def settled(self) -> int:
        return self.length

    def prefill(self, prompt: Sequence[int], answers: Sequence[range] | None = None) -> int:
        self._cache = list(prompt[:-1])
        return prompt[-1]

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        self.calls += 1
        rows = []
        for token in tokens:
            self._cache.append(token)
            rows.append(self.law(tuple(self._cache)))
        assert len(self._cache) <= self.capacity
        return np.array(rows, dtype=object)

    def rewind(self, length: int) -> None:
        assert length <= len(self._cache)
        del self._cache[length:]


class BranchingTable(TableModel):
    """A target that scores siblings, at most `most` positions in a call."""

    branches = True

    def __init__(self, law: Law, most: int = 17, **options: int) -> None:
        super().__init__(law, **options)
        self._most = most
        self._siblings: list[
            tuple[tuple[int, ...], int]
        ] = []  # what each stands behind, and itself

    def room_beside(self, count: int) -> int:
        return max(0, self._most - count)

    def score(self, tokens: Sequence[int], siblings: Sequence[Sibling] = ()) -> np.ndarray:
        assert len(tokens) + len(siblings) <= self._most or not siblings
        start = self.length
        rows = super().score(tokens)
        self._siblings = [
            (tuple(self._cache[: start + place + 1]), token) for place, token in siblings
        ]
        assert all(0 <= place < len(tokens) - 1 for place, _ in siblings)
        beside = [self.law((*before, token)) for before, token in self._siblings]
        return np.array([*rows, *beside], dtype=object)

    def take(self, sibling: int) -> None:
        before, token = self._siblings[sibling]
        assert tuple(self._cache) == before
        self._cache.append(token)


class ReadingTable(TableModel):
    """A draft whose laws depend on whether the target has been in front of a position."""

    def __init__(self, law: Law, target: TableModel) -> None:
        super().__init__(law)
        self._target = target
        self._settled = 0

    @property
    def settled(self) -> int:
        return min(self._settled, self.length)

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        self.calls += 1
        rows = []
        for token in tokens:
            seen = self.length <= self._target.length
            self._settled = (
                self.length + 1 if seen and self.settled == self.length else self.settled
            )
            self._cache.append(token)
            rows.append(self.law((*self._cache, int(seen))))
        return np.array(rows, dtype=object)


def as_law(row: np.ndarray) -> Distribution:
    return Distribution(np.arange(len(row)), row)


def fractions(*weights: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def varying(laws: Sequence[Sequence[Fraction]], stride: int = 1) -> Law:
    """A law that depends on the whole context: each context picks one of `laws`."""

    def law(context: tuple[int, ...]) -> Sequence[Fraction]:
        place = 0
        for token in context:
            place = 5 * place + token + 1
        return laws[(stride * place + len(context)) % len(laws)]

    return law
