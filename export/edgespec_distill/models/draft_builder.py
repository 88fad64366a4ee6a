"""The draft that a training starts with: from its target's weights, or from a finished draft."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgespec.errors import UsageError
from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.data.features import Features
from edgespec_distill.models.reading.block_module import BlockDraft
from edgespec_distill.models.reading.block_student import BlockStudent
from edgespec_distill.models.reading.eagle_module import Eagle
from edgespec_distill.models.reading.eagle_student import EagleStudent
from edgespec_distill.models.reading.shared_encoder_module import SharedEncoder
from edgespec_distill.models.reading.shared_encoder_student import SharedEncoderStudent
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.start_weights import copy_weights, on_device_of, vocabulary_of
from edgespec_distill.models.trainable import GeneratingModel, ScoringModel
from edgespec_distill.models.untrained_draft import last_layers, spread_layers, untrained_draft
from edgespec_distill.plan import Plan

__all__ = ["DraftBuilder"]


class DraftBuilder:
    """Builds drafts of a plan's shape.

    Args:
        features: the target's, which an EAGLE draft reads; None: another draft.

    Raises:
        UsageError: the plan's feed-forward blocks are wider than the target's.
    """

    def __init__(self, target: GeneratingModel, features: Features | None, plan: Plan) -> None:
        self._target, self._features, self._plan = target, features, plan
        if plan.feed_forward is not None:
            widest = int(target.model.config.intermediate_size)
            if plan.feed_forward > widest:
                raise UsageError(
                    f"feed_forward is {plan.feed_forward}; the target has {widest}: give fewer, or "
                    "leave it out"
                )

    def from_finished(self, start: Path) -> ScoringModel:
        """A draft with the weights of a finished one.

        Raises:
            UsageError: that one was distilled from another target.
        """
        target_size = len(self._target.model.get_input_embeddings().weight)
        vocabulary = vocabulary_of(start, self._plan.vocabulary, target_size)
        model = self._untrained(vocabulary)
        copy_weights(model, start)
        return self._draft(model, vocabulary)

    def from_target(self, vocabulary: DraftVocabulary, texts: Sequence[Text]) -> ScoringModel:
        """A draft with weights from its target.

        Args:
            texts: those that an EAGLE draft is initialised with.
        """
        draft = self._draft(self._untrained(vocabulary), vocabulary)
        if isinstance(draft, EagleStudent):
            draft.initialise(texts, self._target.model)
        return draft

    def _untrained(self, vocabulary: DraftVocabulary) -> Any:
        plan, target = self._plan, self._target.model
        model = untrained_draft(
            target,
            layers=plan.layers,
            encoder_layers=1 if plan.share_encoder else plan.encoder_layers,
            width=plan.width,
            feed_forward=plan.feed_forward,
            vocabulary=vocabulary,
            seed=plan.seed,
            keep=spread_layers if self._features is None else last_layers,
        )
        if plan.share_encoder:
            return SharedEncoder(model, target)
        if self._features is None:
            return model
        shape = model, self._features.layers, target.config.hidden_size
        if plan.block is not None:
            return BlockDraft(*shape, plan.block)
        return Eagle(*shape, has_target_tables=plan.target_tables)

    def _draft(self, model: Any, vocabulary: DraftVocabulary) -> ScoringModel:
        model = on_device_of(self._target.model, model)
        if self._plan.share_encoder and isinstance(self._target, Seq2Seq):
            return SharedEncoderStudent(model, vocabulary, self._target)
        if self._features is None:
            return self._target.draft(model, vocabulary)
        student = EagleStudent if self._plan.block is None else BlockStudent
        return student(model, vocabulary, self._features)
