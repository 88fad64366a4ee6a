"""Maps token ids between a target and a draft that have different tokenizers.

The draft proposes only tokens that both have (token-level intersection: Timor et al. 2025,
https://arxiv.org/abs/2502.05202, algorithm 4). It reads every other token of the target as the
tokens of its own that spell the same text.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import LegalRow, VocabRow
from edgespec.core.distribution import Distribution, Processor

__all__ = ["TokenIntersection"]


class TokenIntersection:
    """The tokens that a target and a draft have in common.

    Args:
        common: [target ids, draft ids] of the common tokens. The target's increase, and each id
            occurs once, so that a distribution over the draft's tokens is one over the target's.
        spellings: [target vocabulary] the draft's token ids, at least one, that spell each of the
            target's tokens: a common token's is the draft's id of it.
        begin: the draft's token ids before a prompt, such as a beginning of text that the target
            does not have.
        draft_size: number of the draft's tokens.

    Raises:
        ValueError: these do not fit each other.
    """

    def __init__(
        self,
        common: Sequence[Sequence[int]],
        spellings: Sequence[Sequence[int]],
        begin: Sequence[int],
        draft_size: int,
    ) -> None:
        self._targets, self._drafts = (np.array(ids, np.int64) for ids in common)
        self._begin = list(begin)
        self._spelled = np.array([*itertools.chain(*spellings)], np.int64)
        self._ends = np.cumsum([len(spelling) for spelling in spellings], dtype=np.int64)
        self._draft_size = draft_size
        self._check(spellings)
        self._target_ids = np.full(draft_size, -1)
        self._target_ids[self._drafts] = self._targets

    def _check(self, spellings: Sequence[Sequence[int]]) -> None:
        count = len(self._targets)
        if not count or len(self._drafts) != count or np.any(np.diff(self._targets) <= 0):
            raise ValueError("common target ids do not increase, or draft ids are missing")
        if self._targets[0] < 0 or self._targets[-1] >= len(spellings):
            raise ValueError("common names tokens that the target lacks")
        if len(np.unique(self._drafts)) != count:
            raise ValueError("common names a token of the draft twice")
        for ids in (self._drafts, self._spelled, np.array(self._begin, np.int64)):
            if len(ids) and (ids.min() < 0 or ids.max() >= self._draft_size):
                raise ValueError("it names tokens that the draft lacks")
        if not all(spellings):
            raise ValueError("a token of the target has no spelling")
        if any(
            list(spellings[target]) != [draft]
            for target, draft in zip(self._targets.tolist(), self._drafts.tolist(), strict=True)
        ):
            raise ValueError("a common token is spelled with others")

    def to_draft_ids(self, tokens: Sequence[int] | npt.NDArray[np.int64]) -> list[int]:
        """The draft's token ids that spell tokens of the target, at least one for each."""
        ids: list[int] = []
        for token in tokens:
            ids += self._spelled[self._start(token) : self._ends[token]].tolist()
        return ids

    def to_target_ids(self, tokens: Sequence[int] | npt.NDArray[np.int64]) -> list[int]:
        """Token ids of the target for common tokens of the draft; -1 for others."""
        ids: list[int] = self._target_ids.take(tokens).tolist()
        return ids

    def prompt(
        self, tokens: Sequence[int], assistant_spans: Sequence[range] | None
    ) -> tuple[list[int], Sequence[range] | None]:
        """A prompt in the draft's tokens, with the positions of the same answers in it."""
        ids = self._begin + self.to_draft_ids(tokens)
        if assistant_spans is None:
            return ids, None
        lengths = [int(self._ends[token]) - self._start(token) for token in tokens]
        starts = [*itertools.accumulate(lengths, initial=len(self._begin))]
        return ids, [range(starts[answer.start], starts[answer.stop]) for answer in assistant_spans]

    def distribution(self, process: Processor, logits: VocabRow) -> Distribution:
        """q over token ids of the target: of the common tokens alone, so they share the whole
        probability."""
        q = process(logits[self._drafts])
        whole = len(q.tokens) == len(self._targets)
        return Distribution(self._targets if whole else self._targets[q.tokens], q.probabilities)

    def covers(self, size: int) -> bool:
        """Whether every token of the draft is common, so that its best tokens are q's."""
        return size == len(self._targets) == self._draft_size

    def legal(self, allowed: LegalRow, size: int) -> LegalRow:
        """Which of the draft's tokens are common and allowed ([size]), by those of the target's
        that are ([target vocabulary])."""
        row = np.zeros(size, np.bool_)
        row[self._drafts] = allowed[self._targets]
        return row

    def _start(self, token: int) -> int:
        return int(self._ends[token - 1]) if token else 0
