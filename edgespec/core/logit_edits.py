"""Options that change logits by the text so far: penalties, biases, a least length.

They are part of the target's distribution: every verified row is changed by the tokens before it,
accepted ones and drafted ones, as plain decoding would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import Logits, VocabRow
from edgespec.core.distribution_options import LogitEdits
from edgespec.errors import UsageError

__all__ = ["FirstToken", "LogitEdit", "Mask", "edit_of"]

# A row of logits ([vocab]) and the tokens generated before it, to the row that is sampled from.
LogitEdit = Callable[[VocabRow, Sequence[int]], VocabRow]


@runtime_checkable
class Mask(Protocol):
    """A `LogitEdit` that removes tokens and changes nothing else. So the arg-max of a row stays the
    arg-max, unless it is removed."""

    def __call__(self, logits: VocabRow, generated: Sequence[int], /) -> VocabRow: ...

    def keeps(self, token: int, generated: Sequence[int]) -> bool:
        """Whether this token stays after the generated ones."""
        ...


@dataclass(frozen=True)
class FirstToken:
    """A `Mask` that makes a token the first of the text, such as that of its language."""

    token: int

    def __call__(self, logits: VocabRow, generated: Sequence[int], /) -> VocabRow:
        if generated:
            return logits
        row: VocabRow = np.full_like(logits, -np.inf)
        row[self.token] = 0
        return row

    def keeps(self, token: int, generated: Sequence[int]) -> bool:
        """See `Mask`."""
        return bool(generated) or token == self.token


def edit_of(
    edits: LogitEdits, prompt: Sequence[int], last_tokens: Collection[int], vocab_size: int
) -> LogitEdit | None:
    """The function that changes each row of one text; None if nothing is to be changed.

    Args:
        prompt: tokens that count as repeated, too.
        last_tokens: those that end a text.
        vocab_size: the length of a row.

    Raises:
        UsageError: `logit_bias` names a token that the model does not have.
    """
    if edits == LogitEdits():
        return None
    absent = [token for token in edits.logit_bias if token >= vocab_size]
    if absent:
        raise UsageError(
            f"logit_bias has the token {absent[0]}; this model's are 0 to {vocab_size - 1}"
        )
    return _Edit(edits, prompt, last_tokens)


class _Edit:
    """The changes of one text's rows."""

    def __init__(
        self, edits: LogitEdits, prompt: Sequence[int], last_tokens: Collection[int]
    ) -> None:
        self._edits = edits
        self._prompt = np.unique(np.asarray(prompt, np.int64))
        self._biased = np.array(list(edits.logit_bias), np.int64)
        self._biases = np.array(list(edits.logit_bias.values()), np.float32)
        self._last_tokens = np.array(list(last_tokens), np.int64)

    def __call__(self, logits: Logits, generated: Sequence[int]) -> Logits:
        edited = logits.copy()
        tokens, counts = np.unique(np.asarray(generated, np.int64), return_counts=True)
        self._penalize(edited, tokens, counts)
        edited[self._biased] += self._biases
        if len(generated) < self._edits.min_tokens:
            edited[self._last_tokens] = -np.inf
        return edited

    def _penalize(
        self, logits: Logits, tokens: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> None:
        edits = self._edits
        if edits.repetition_penalty != 1:
            penalty = np.float32(edits.repetition_penalty)
            seen = np.union1d(self._prompt, tokens)
            values = logits[seen]
            logits[seen] = np.where(values > 0, values / penalty, values * penalty)
        penalties = edits.presence_penalty + edits.frequency_penalty * counts
        logits[tokens] -= penalties.astype(np.float32)
