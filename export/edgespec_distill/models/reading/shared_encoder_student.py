"""A T5 draft that reads its target's encoder, as a model that scores texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.seq2seq import DecodingModel, Seq2Seq

__all__ = ["SharedEncoderStudent"]


class SharedEncoderStudent(DecodingModel):
    """A draft without an encoder.

    Args:
        model: a `shared_encoder_module.SharedEncoder`.
        target: whose encoder it reads. It is not trained.
    """

    def __init__(self, model: Any, vocabulary: DraftVocabulary, target: Seq2Seq) -> None:
        super().__init__(model, vocabulary, target.start_in(vocabulary))
        self._target = target

    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        with torch.no_grad():
            stream, mask = self._target.encoder_stream(texts)
        yield self._decoded(texts, rms_norm(self.model.source_norm, stream), mask)
