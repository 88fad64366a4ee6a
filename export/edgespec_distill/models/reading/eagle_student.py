"""An EAGLE draft as a model that scores texts, from the target's features of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text, input_rows
from edgespec_distill.models.causal import predicting_positions
from edgespec_distill.models.reading import eagle_module, eagle_start
from edgespec_distill.models.trainable import ScoringModel

__all__ = ["EagleStudent", "TextFeatures"]

SIZE_TEXTS = 32  # that show how large a narrow draft's states are


class TextFeatures(Protocol):
    """The target's features of texts: see `features.Features`."""

    def of(self, texts: Sequence[Text]) -> list[Tensor]: ...


class EagleStudent(ScoringModel):
    """A draft that reads its target's hidden states.

    Args:
        model: an `eagle_module.Eagle`.
        features: the target's features of all texts that the draft is trained on or compared on.
    """

    def __init__(self, model: Any, vocabulary: DraftVocabulary, features: TextFeatures) -> None:
        super().__init__(model, vocabulary)
        self._features = features
        start = getattr(model.config, "decoder_start_token_id", None)
        self._start = None if start is None else int(vocabulary.outputs[start])

    def initialise(self, texts: Sequence[Text], target: Any) -> None:
        """Sets the weights that the training starts from: see `eagle_start`.

        Args:
            target: the transformers model, or its tables and norm.
        """
        device, inputs = self.model.device, self.vocabulary.inputs
        if self.head.shape[1] < self.model.target_width:
            head = target.lm_head.weight[self.vocabulary.outputs.to(device)].float()
            some = torch.cat(self._features.of(texts[:SIZE_TEXTS])).to(device)
            eagle_start.read_by_head(self.model, head * target.model.norm.weight, some)
        rows = input_rows(self._decoded(texts))
        ids = (inputs[torch.tensor(row)].to(device) for row in rows)
        features = (self._features.of([text])[0].to(device) for text in texts)
        eagle_start.initialise(self.model, zip(ids, features, strict=True))

    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        ids, features = self._padded_inputs(texts)
        predictions = eagle_module.hidden_states(self.model, ids, features)
        for skipped, hidden in enumerate(predictions):
            yield hidden[self._predicting(texts, ids, skipped)]

    def _padded_inputs(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
        """The draft's token ids of texts, [rows, m], and the target's features, [rows, m, F]."""
        ids, real = self._inputs(input_rows(self._decoded(texts)))
        known = torch.cat(self._features.of(texts)).to(ids.device)
        features = torch.zeros(*ids.shape, known.shape[1], dtype=known.dtype, device=ids.device)
        features[real] = known
        return ids, features

    def _predicting(self, texts: Sequence[Text], ids: Tensor, skipped: int = 0) -> Tensor:
        """A mask of the positions in `ids` that predict the outputs, except their first
        `skipped`."""
        return predicting_positions(self._decoded(texts), ids, skipped)

    def _decoded(self, texts: Sequence[Text]) -> Sequence[Text]:
        """What the target's decoder reads and writes of texts: all, or after an encoder the start
        token and the output."""
        if self._start is None:
            return texts
        return [Text((self._start,), text.output) for text in texts]
