"""A `Model` that computes its distributions with a function instead of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from edgespec.core.distribution import Distribution
from edgespec.core.model import Candidate

NextToken = Callable[[tuple[int, ...]], Sequence[Fraction]]


class TableModel:
    """Returns distributions where a network returns logits; use it with `as_distribution`."""

    seconds = 0.0

    def __init__(self, distribution: NextToken, vocab_size: int = 3, capacity: int = 64) -> None:
        self.distribution = distribution
        self.vocab_size = vocab_size
        self.capacity = capacity
        self.calls = 0
        self._cache: list[int] = []

    @property
    def length(self) -> int:
        return len(self._cache)

    @property
    def valid_length(self) -> int:
        return self.length

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        self._cache = list(prompt[:-1])
        return prompt[-1]

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        self.calls += 1
        rows = []
        for token in tokens:
            self._cache.append(token)
            rows.append(self.distribution(tuple(self._cache)))
        assert len(self._cache) <= self.capacity
        return np.array(rows, dtype=object)

    def rewind(self, length: int) -> None:
        assert length <= len(self._cache)
        del self._cache[length:]


class BranchingTable(TableModel):
    """A target that scores candidates, at most `most` positions in a call."""

    scores_candidates = True

    def __init__(self, distribution: NextToken, most: int = 17, **options: int) -> None:
        super().__init__(distribution, **options)
        self._most = most
        self._candidates: list[tuple[tuple[int, ...], int]] = []  # the tokens before it, and it

    def candidate_room(self, count: int) -> int:
        return max(0, self._most - count)

    def score(self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()) -> np.ndarray:
        assert len(tokens) + len(candidates) <= self._most or not candidates
        start = self.length
        rows = super().score(tokens)
        self._candidates = [
            (tuple(self._cache[: start + parent + 1]), token) for parent, token in candidates
        ]
        assert all(0 <= parent < len(tokens) - 1 for parent, _ in candidates)
        candidate_rows = [self.distribution((*before, token)) for before, token in self._candidates]
        return np.array([*rows, *candidate_rows], dtype=object)

    def commit_candidate(self, candidate: int) -> None:
        before, token = self._candidates[candidate]
        assert tuple(self._cache) == before
        self._cache.append(token)


class ReadingTable(TableModel):
    """An EAGLE-like draft: its distributions depend on whether the target has scored a position."""

    def __init__(self, distribution: NextToken, target: TableModel) -> None:
        super().__init__(distribution)
        self._target = target
        self._settled = 0

    @property
    def valid_length(self) -> int:
        return min(self._settled, self.length)

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        self.calls += 1
        rows = []
        for token in tokens:
            seen = self.length <= self._target.length
            self._settled = (
                self.length + 1 if seen and self.valid_length == self.length else self.valid_length
            )
            self._cache.append(token)
            rows.append(self.distribution((*self._cache, int(seen))))
        return np.array(rows, dtype=object)


class BlockTable(TableModel):
    """A block draft: what it says ahead of the target depends on the text up to the block, on how
    far ahead it is, and on the token before."""

    block = 3

    def __init__(self, distribution: NextToken, target: TableModel) -> None:
        super().__init__(distribution)
        self._target = target
        self._known = 0

    @property
    def valid_length(self) -> int:
        return min(self._known, self.length)

    def confidence_after(self, token: int) -> float:
        """High or low, by the text up to the block, how far ahead, and the token before."""
        return 0.9 if (sum(self._cache[: self._known]) + self.length + token) % 2 else 0.1

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        if self.length + len(tokens) <= self._target.length + 1:
            self._known = self.length + len(tokens)
            return super().score(tokens)
        (token,) = tokens
        ahead = self.length + 1 - self._known
        assert 0 < ahead < self.block
        self._cache.append(token)
        known = self._cache[: self._known]
        return np.array([self.distribution((*known, token, ahead))], dtype=object)


def as_distribution(row: np.ndarray) -> Distribution:
    return Distribution(np.arange(len(row)), row)


def fractions(*weights: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def varying(distributions: Sequence[Sequence[Fraction]], stride: int = 1) -> NextToken:
    """A distribution that depends on the context: each context picks one of `distributions`."""

    def distribution(context: tuple[int, ...]) -> Sequence[Fraction]:
        code = 0  # of the tokens of the context
        for token in context:
            code = 5 * code + token + 1
        return distributions[(stride * code + len(context)) % len(distributions)]

    return distribution
