"""T5 as a model that scores and generates texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models import t5_forward as t5
from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.trainable import (
    DecodeState,
    GeneratingModel,
    Rows,
    ScoringModel,
)

__all__ = ["DecodingModel", "Seq2Seq"]


class DecodingModel(ScoringModel):
    """A model with T5's decoder, whatever its source's hidden states come from.

    Args:
        start_token: the token that the decoder starts with, in the model's own token ids. A config
            need not name it.
    """

    def __init__(self, model: Any, vocabulary: DraftVocabulary, start_token: int) -> None:
        super().__init__(model, vocabulary)
        self._start = start_token

    def _decoded(self, texts: Sequence[Text], source: Tensor, mask: Tensor) -> Tensor:
        """The head's inputs that predict the outputs of texts, from their sources' hidden states
        [texts, source, width] and the mask of these, as of `t5_forward.encode`."""
        outputs, real = self._inputs([text.output for text in texts])
        start = torch.full_like(outputs[:, :1], self._start)
        previous = torch.cat([start, outputs[:, :-1]], 1)
        return t5.scaled(self.model, t5.decode(self.model, source, mask, previous)[real])


class Seq2Seq(DecodingModel, GeneratingModel):
    """An encoder-decoder; the encoder reads the prompt."""

    def draft(self, model: Any, vocabulary: DraftVocabulary) -> Seq2Seq:
        return Seq2Seq(model, vocabulary, self.start_in(vocabulary))

    def start_in(self, vocabulary: DraftVocabulary) -> int:
        """The start token in a draft's token ids."""
        return int(vocabulary.inputs[self._start])

    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        stream, mask = self.encoder_stream(texts)
        source = rms_norm(self.model.encoder.final_layer_norm, stream)
        yield self._decoded(texts, source, mask)

    def encoder_stream(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
        """What the encoder says of the prompts before its last norm, and the mask of it."""
        source, read = self._inputs([text.prompt for text in texts])
        mask = torch.zeros(read.shape, dtype=self.model.dtype, device=source.device)
        mask = mask.masked_fill(~read, torch.finfo(self.model.dtype).min / 2)[:, None, None]
        return t5.encoder_stream(self.model, source, mask), mask

    def begin(self, prompts: Rows, max_new_tokens: int) -> DecodeState:
        return _T5DecodeState(self.model, *self._inputs(prompts), self._start)


class _T5DecodeState:
    def __init__(self, model: Any, source: Tensor, read: Tensor, start: int) -> None:
        self._model, self._read = model, read
        self._encoded = model.encoder(input_ids=source, attention_mask=read).last_hidden_state
        self._cache: EncoderDecoderCache | None = None
        self.add(torch.full((len(source),), start).to(source))

    def add(self, tokens: Tensor) -> None:
        found = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._encoded),
            attention_mask=self._read,
            decoder_input_ids=tokens[:, None],
            past_key_values=self._cache,
            use_cache=True,
        )
        self.logits, self._cache = found.logits[:, -1], found.past_key_values

    def keep_rows(self, rows: Tensor) -> None:
        assert self._cache is not None
        self._cache.batch_select_indices(rows)
        self._encoded, self._read = self._encoded[rows], self._read[rows]

    def features(self, row: int, outputs: int) -> None:
        """None: their bits would depend on the other texts."""
