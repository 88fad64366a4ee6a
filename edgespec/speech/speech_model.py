"""What a transcript asks of a model, and a draft that keeps to the rules on tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from edgespec.audio.log_mel import SpectrogramWindow
from edgespec.core.array_types import LogitRows
from edgespec.core.logit_edits import LogitEdit
from edgespec.core.model import Model

__all__ = ["RuledDraft", "SpeechModel"]


@runtime_checkable
class SpeechModel(Model, Protocol):
    """A model of texts about a window of sound."""

    def hear(self, log_mel: SpectrogramWindow) -> None:
        """Takes the window that the next texts are about."""
        ...


class RuledDraft:
    """A draft whose logits keep to rules, with a beginning of the text that is its own.

    The rules are on the draft's own tokens, so it may have another tokenizer than its target.

    Args:
        model: has heard the window.
        rules: on the tokens after the prompt.
        prompt: what the draft reads instead of the target's prompt: a draft for English alone
            knows no token for the language.
    """

    def __init__(self, model: Model, rules: LogitEdit, prompt: Sequence[int]) -> None:
        self._model = model
        self._rules = rules
        self._prompt = list(prompt)
        self._start = 0
        self._generated: list[int] = []  # with the prompt's last token before them

    @property
    def vocab_size(self) -> int:
        return self._model.vocab_size

    @property
    def capacity(self) -> int:
        return self._model.capacity

    @property
    def length(self) -> int:
        return self._model.length

    @property
    def valid_length(self) -> int:
        return self._model.valid_length

    @property
    def seconds(self) -> float:
        return self._model.seconds

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a text with the draft's own prompt."""
        self._generated = []
        pending = self._model.prefill(self._prompt)
        self._start = self._model.length
        return pending

    def score(self, tokens: Sequence[int]) -> LogitRows:
        """See `Model.score`; the first token after the prompt stands for the draft's own."""
        read = list(tokens)
        if not self._generated:
            read[0] = self._prompt[-1]
        rows = self._model.score(read)
        before = len(self._generated)
        self._generated += read
        return np.stack(
            [
                self._rules(row, self._generated[1 : before + index + 1])
                for index, row in enumerate(rows)
            ]
        )

    def rewind(self, length: int) -> None:
        """See `Model.rewind`."""
        self._model.rewind(length)
        del self._generated[max(0, length - self._start) :]
