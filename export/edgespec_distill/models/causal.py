"""Llama-like models as models that score and generate texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text, input_rows
from edgespec_distill.models import llama_forward as llama
from edgespec_distill.models.trainable import DecodeState, GeneratingModel, Rows

__all__ = ["Causal", "predicting_positions"]

PREFILL_POSITIONS = 4096  # padded positions of prompts that are read at once


class Causal(GeneratingModel):
    """A decoder-only model; prompt and output are one sequence.

    Attributes:
        feature_layers: the layers, counted from 1, whose outputs an EAGLE draft reads.
    """

    feature_layers: Sequence[int] = ()

    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        ids, _ = self._inputs(input_rows(texts))
        hidden, _ = llama.hidden_states(self.model, ids)
        yield hidden[predicting_positions(texts, ids)]

    def begin(self, prompts: Rows, max_new_tokens: int) -> DecodeState:
        inputs = self._inputs(prompts)
        return _LlamaDecodeState(self.model, *inputs, max_new_tokens)

    def draft(self, model: Any, vocabulary: DraftVocabulary) -> Causal:
        return Causal(model, vocabulary)

    @torch.no_grad()
    def features(self, texts: Sequence[Text]) -> list[Tensor]:
        """The features at all positions of each text but the last: [n, layers · width].

        On a processor each text is read alone, so it has the same bits whatever is beside it. A GPU
        reads them together, which is several times faster.
        """
        if self.model.device.type == "cpu":
            return [part for text in texts for part in self._read([text])]
        return self._read(texts)

    def _read(self, texts: Sequence[Text]) -> list[Tensor]:
        ids, real = self._inputs(input_rows(texts))
        _, features = llama.hidden_states(self.model, ids, feature_layers=self.feature_layers)
        return list(torch.split(features[real], [self.shown_positions(text) for text in texts]))

    def shown_positions(self, text: Text) -> int:
        """How many positions of a text have features."""
        return len(text) - 1


def predicting_positions(texts: Sequence[Text], ids: Tensor, skipped: int = 0) -> Tensor:
    """A mask of the positions in `ids` that predict the outputs, except their first `skipped`."""
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    for row, text in zip(mask, texts, strict=True):
        first = len(text.prompt) - 1  # the prompt's last token predicts the output's first
        row[first + skipped : first + len(text.output)] = True
    return mask.to(ids.device)


class _LlamaDecodeState:
    def __init__(self, model: Any, ids: Tensor, real: Tensor, max_new_tokens: int) -> None:
        self._model, self._lengths = model, real.sum(1)
        self._cache = llama.Cache.empty(model, len(ids), ids.shape[1] + max_new_tokens)
        logits = []
        at_once = max(1, PREFILL_POSITIONS // ids.shape[1])
        for first in range(0, len(ids), at_once):
            rows = slice(first, first + at_once)
            logits.append(self._prefill(ids[rows], self._lengths[rows], self._cache[rows]))
        self.logits: Tensor = torch.cat(logits)

    def _prefill(self, ids: Tensor, lengths: Tensor, cache: llama.Cache) -> Tensor:
        """The logits after some prompts."""
        ids = ids[:, : lengths.max()]
        hidden, _ = llama.hidden_states(self._model, ids, cache=cache)
        last = hidden[torch.arange(len(ids), device=ids.device), lengths - 1]
        logits: Tensor = self._model.lm_head(last)
        return logits

    def add(self, tokens: Tensor) -> None:
        hidden, _ = llama.hidden_states(self._model, tokens[:, None], self._lengths, self._cache)
        self._lengths = self._lengths + 1
        self.logits = self._model.lm_head(hidden[:, 0])

    def keep_rows(self, rows: Tensor) -> None:
        self._cache = self._cache[rows]
        self._lengths = self._lengths[rows]

    def features(self, row: int, outputs: int) -> None:
        """None: their bits would depend on the other texts."""
