"""A `Model` whose logits are random numbers that the last tokens name: microseconds a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import edgespec
from edgespec.core.model import Candidate, TopTokens
from edgespec.pair.parts import OneAtATime
from edgespec.pair.text_engine import alone

TOP_K = 4


def hashed_pair(pair: edgespec.Pair, target: HashedModel, draft: HashedModel) -> edgespec.Pair:
    """The same pair with other models; it shares what the pair knows about grammars."""
    parts = replace(pair.parts, target=target, draft=draft, occupied=OneAtATime())
    hashed = edgespec.Pair(parts, parts.drafting())
    clock = pair.drafting.clock
    assert clock is not None
    hashed._engine = pair.text_engine.slot(target, draft, clock, alone)
    return hashed


class HashedModel:
    """Logits that depend on the last two tokens.

    Args:
        size: of the vocabulary.
        seed: of the numbers.
        noise: added to those of another seed, in standard deviations: a draft of the same seed.
        grain: logits are multiples of it, as in coarse number formats: many are equal.
        returns_top_tokens, scores_candidates: see the protocols of `edgespec.core.model`.
    """

    seconds = 0.0

    def __init__(
        self,
        size: int,
        seed: int,
        *,
        noise: float = 0.0,
        grain: float = 0.0,
        returns_top_tokens: bool = False,
        scores_candidates: bool = False,
        capacity: int = 96,
    ) -> None:
        self.vocab_size, self.capacity = size, capacity
        self.returns_top_tokens, self.scores_candidates = returns_top_tokens, scores_candidates
        self._seed, self._noise, self._grain = seed, noise, grain
        self._cache: list[int] = []
        self._candidates: Sequence[Candidate] = ()
        self._rows: dict[tuple[int, ...], np.ndarray] = {}

    @property
    def length(self) -> int:
        return len(self._cache)

    @property
    def valid_length(self) -> int:
        return self.length

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        self._cache = list(prompt[:-1])
        return prompt[-1]

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self._cache[length:]

    def candidate_room(self, count: int) -> int:
        return max(0, 12 - count)

    def score(self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()) -> np.ndarray:
        start = self.length
        self._cache += tokens
        assert self.length <= self.capacity
        self._candidates = candidates
        ends = [self._cache[: start + index + 1] for index in range(len(tokens))]
        ends += [[*ends[parent], token] for parent, token in candidates]
        return np.stack([self._row(tuple(end[-2:])) for end in ends])

    def commit_candidate(self, number: int) -> None:
        self._cache.append(self._candidates[number].token)

    def top_tokens(
        self,
        tokens: Sequence[int],
        candidates: Sequence[Candidate] = (),
        *,
        skip: int = 0,
        probabilities: bool = False,
    ) -> TopTokens:
        rows = self.score(tokens, candidates)[skip:]
        best = np.argsort(-rows, axis=1, kind="stable")[:, : TOP_K if probabilities else 1]
        with np.errstate(invalid="ignore"):  # a test's rows may be no numbers
            weights = np.exp(rows - rows.max(axis=1, keepdims=True))
            shares = weights / weights.sum(axis=1, keepdims=True)
        at = np.arange(len(rows))[:, None]
        return TopTokens(best, rows[at, best], shares[at, best] if probabilities else None)

    def _row(self, key: tuple[int, ...]) -> np.ndarray:
        if key not in self._rows:
            row = self._numbers(key, 0)
            if self._noise:
                row = row + self._noise * self._numbers(key, 1)
            if self._grain:
                row = np.round(row / self._grain) * self._grain
            self._rows[key] = row.astype(np.float32)
        return self._rows[key]

    def _numbers(self, key: tuple[int, ...], stream: int) -> np.ndarray:
        generator = np.random.default_rng([self._seed, stream, len(key), *key])
        return 2.5 * generator.standard_normal(self.vocab_size)
