"""A limit of a model's thinking: at its end the mark that ends the thinking is the only text.

It is part of the target's distribution: which token comes is decided by the tokens before it alone,
so drafted rows have what plain decoding would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgespec.chat.reasoning import ReasoningFormat
from edgespec.core.array_types import VocabRow

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["ThinkingLimit"]


class ThinkingLimit:
    """A `edgespec.core.logit_edits.Mask` that ends thinking after a number of tokens.

    Args:
        form: of the model's thinking.
        budget: tokens between its marks.
        is_open: the prompt begins it.
    """

    def __init__(
        self, form: ReasoningFormat, budget: int, is_open: bool, tokenizer: Tokenizer
    ) -> None:
        def tokens(text: str) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False).ids)

        self._form, self._is_open, self._tokenizer = form, is_open, tokenizer
        self._end = tokens(form.end)
        self._start = budget + (0 if is_open else len(tokens(form.begin)))
        self._checked: tuple[list[int], bool] = ([], False)

    def __call__(self, logits: VocabRow, generated: Sequence[int], /) -> VocabRow:
        token = self._forced(generated)
        if token is None:
            return logits
        row: VocabRow = np.full_like(logits, -np.inf)
        row[token] = logits[token]
        return row if np.isfinite(row[token]) else _certain(row, token)

    def keeps(self, token: int, generated: Sequence[int]) -> bool:
        """See `Mask`."""
        forced = self._forced(generated)
        return forced is None or token == forced

    def _forced(self, generated: Sequence[int]) -> int | None:
        """The only token that may follow these; None if any may."""
        index = len(generated) - self._start
        if not 0 <= index < len(self._end) or not self._is_thinking(generated[: self._start]):
            return None
        return self._end[index]

    def _is_thinking(self, tokens: Sequence[int]) -> bool:
        """Whether a text of these tokens ends within its thinking."""
        known, thinking = self._checked
        if known != tokens or not known:
            text = self._tokenizer.decode(list(tokens), skip_special_tokens=False)
            begun = self._is_open or text.lstrip().startswith(self._form.begin)
            thinking = begun and self._form.end not in text
            self._checked = (list(tokens), thinking)
        return thinking


def _certain(row: VocabRow, token: int) -> VocabRow:
    """A row whose only token has another edit's −∞: a bias must not keep thinking from ending."""
    row[token] = 0
    return row
