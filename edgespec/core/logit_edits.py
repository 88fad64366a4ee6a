"""Options that change logits by the text so far: penalties, biases, a least length.

They are part of the target's distribution: every verified row is changed by the tokens before it,
accepted ones and drafted ones, as plain decoding would change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Protocol, TypedDict, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import Logits, VocabRow
from edgespec.errors import UsageError, shortened

__all__ = ["FirstToken", "LogitEdit", "LogitEditOptions", "LogitEdits", "Mask"]

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


MAX_PENALTY = 2.0  # OpenAI's limits
MAX_BIAS = 100.0


class LogitEditOptions(TypedDict, total=False):
    """The keyword arguments of `LogitEdits`."""

    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    min_tokens: int


@dataclass(frozen=True)
class LogitEdits:
    """Changes of logits, applied in this order, before temperature and truncation.

    Attributes:
        repetition_penalty: of tokens in the prompt and in the text: positive logits are divided by
            it, negative ones multiplied. Keskar et al. (2019, arXiv 1909.05858). The prompt of an
            encoder-decoder does not count, as in transformers. 1 changes nothing.
        presence_penalty: subtracted from the logits of generated tokens, once.
        frequency_penalty: subtracted as often as the token was generated.
        logit_bias: added to the logits of these tokens.
        min_tokens: an end-of-text token cannot come before so many others.

    Raises:
        UsageError: an option is out of its range.
    """

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0

    def __post_init__(self) -> None:
        if not (_is_number(self.repetition_penalty) and 0 < self.repetition_penalty < math.inf):
            value = shortened(self.repetition_penalty)
            raise UsageError(f"repetition_penalty is {value}; give a number above 0 (1 is off)")
        for name in ("presence_penalty", "frequency_penalty"):
            _check_range(name, getattr(self, name), MAX_PENALTY)
        if not isinstance(self.logit_bias, Mapping):
            value = shortened(self.logit_bias)
            raise UsageError(f"logit_bias is {value}; give numbers by token ids")
        for token, bias in self.logit_bias.items():
            if not _is_whole(token):
                raise UsageError(f"logit_bias has the token {shortened(token)}; give its id")
            _check_range(f"the logit_bias of token {token}", bias, MAX_BIAS)
        if not _is_whole(self.min_tokens):
            value = shortened(self.min_tokens)
            raise UsageError(f"min_tokens is {value}; give 0 (off) or a whole number above it")

    def edit(
        self, prompt: Sequence[int], last_tokens: Collection[int], vocab_size: int
    ) -> LogitEdit | None:
        """The function that changes each row of one text; None if nothing is to be changed.

        Args:
            prompt: tokens that count as repeated, too.
            last_tokens: those that end a text.
            vocab_size: the length of a row.

        Raises:
            UsageError: `logit_bias` names a token that the model does not have.
        """
        if self == LogitEdits():
            return None
        absent = [token for token in self.logit_bias if token >= vocab_size]
        if absent:
            raise UsageError(
                f"logit_bias has the token {absent[0]}; this model's are 0 to {vocab_size - 1}"
            )
        return _Edit(self, prompt, last_tokens)


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


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _check_range(name: str, value: object, most: float) -> None:
    if not (_is_number(value) and -most <= value <= most):  # type: ignore[operator]
        raise UsageError(f"{name} is {shortened(value)}; give a number from -{most:g} to {most:g}")
