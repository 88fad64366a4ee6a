"""The interfaces between models and training: models that score texts or also generate them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Example, Text, padded
from edgespec_distill.training.wide_head import Loss, head_loss

__all__ = ["MOST_POSITIONS", "DecodeState", "GeneratingModel", "Rows", "ScoringModel"]

Rows = Sequence[Sequence[int]]
MOST_POSITIONS = 49152  # of all texts that are written at once
EAGLE_STEPS = 3  # predictions at most that an EAGLE draft makes in a row, each from the last


class DecodeState(Protocol):
    """Texts that a model is generating, one per row.

    Attributes:
        logits: [rows, own vocabulary] of the next token.
    """

    logits: Tensor

    def features(self, row: int, outputs: int) -> Tensor | None:
        """The model's features at the positions that it read for the first `outputs` tokens of text
        `row`, counted before any were dropped: [positions, size]. None where it returns none, or
        where their bits are not those of reading a text as a whole."""
        ...

    def add(self, tokens: Tensor) -> None:
        """Appends one token to each text: [rows], in the model's own token ids."""
        ...

    def keep_rows(self, rows: Tensor) -> None:
        """Drops all texts but these rows."""
        ...


class ScoringModel(ABC):
    """A target or a draft that scores texts, so it can be trained and compared.

    Attributes:
        model: a transformers model, or an `eagle_module.Eagle`.
        vocabulary: its own token ids and the target's.
    """

    def __init__(self, model: Any, vocabulary: DraftVocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    @abstractmethod
    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        """The head's inputs that predict the outputs: [tokens of all outputs, width], row by row.

        A model that can also predict from its own hidden states (EAGLE) yields more, as many as
        are taken: element n, from 0, lacks the first n tokens of each output.
        """

    def logits(self, texts: Sequence[Text]) -> Tensor:
        """[tokens of all outputs, own vocabulary], of the first predictions."""
        return functional.linear(next(self.hidden_states(texts)), self.head)

    def losses(self, batch: Sequence[Example], loss: Loss, rng: random.Random) -> list[Tensor]:
        """What a training step minimises the sum of; the first is of first predictions.

        Args:
            batch: with the target's distributions.
        """
        found = []
        count = rng.randint(1, EAGLE_STEPS)  # the first prediction matters most
        for skipped, hidden in zip(range(count), self.hidden_states(batch), strict=False):
            if not len(hidden):  # no output has this many tokens
                break
            p_logs, tokens = self._targets(batch, skipped)
            found.append(head_loss(loss, p_logs, tokens, hidden, self.head))
        return found

    @property
    def head(self) -> Tensor:
        """[own vocabulary, width]."""
        weight: Tensor = self.model.lm_head.weight
        return weight

    def _targets(self, batch: Sequence[Example], skipped: int) -> tuple[Tensor, Tensor]:
        """The target's log-probabilities and tokens, [tokens of all outputs, k], without the first
        `skipped` of each output: in the draft's own token ids, -inf for tokens that it lacks."""
        device = self.model.device
        p_logs = torch.cat([example.log_probs[skipped:] for example in batch])
        tokens = torch.cat([example.tokens[skipped:] for example in batch])
        p_logs = p_logs.masked_fill(~self.vocabulary.known(tokens), -torch.inf)
        tokens = self.vocabulary.inputs[tokens]
        return p_logs.to(device).float(), tokens.to(device).long()

    def _inputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Rows of the target's tokens as the model's own token ids, padded; and their mask."""
        ids, real = padded(rows)
        return self.vocabulary.inputs[ids].to(self.model.device), real.to(self.model.device)


class GeneratingModel(ScoringModel):
    """A target or a draft that can also generate texts without another model.

    Attributes:
        positions_at_once: that the texts may have together which it generates at once.
    """

    positions_at_once: int = MOST_POSITIONS

    @abstractmethod
    def begin(self, prompts: Rows, max_new_tokens: int) -> DecodeState:
        """Starts an output after each prompt."""

    @abstractmethod
    def draft(self, model: Any, vocabulary: DraftVocabulary) -> GeneratingModel:
        """A draft of the same kind as this target."""
