"""A block draft as a model that scores texts, and its losses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.data.examples import Example, Text
from edgespec_distill.models.reading import block_module
from edgespec_distill.models.reading.eagle_student import EagleStudent
from edgespec_distill.training.loss import shared_mass
from edgespec_distill.training.wide_head import Loss, head_loss

__all__ = ["BlockStudent"]

# What a prediction counts, for each position that it is further ahead: it is of use only where all
# before it are accepted.
DECAY = 0.8


class BlockStudent(EagleStudent):
    """A draft that drafts several tokens with one call.

    Args: those of `EagleStudent`; `model` is a `block_module.BlockDraft`.
    """

    def initialise(self, texts: Sequence[Text], target: Any) -> None:
        super().initialise(texts, target)
        block_module.initialise_markov(self.model)

    def hidden_states(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        ids, features = self._padded_inputs(texts)
        one_block = torch.zeros(1, dtype=torch.long, device=ids.device)
        hidden, _ = block_module.hidden_states(self.model, ids, features, one_block)
        yield hidden[self._predicting(texts, ids)]

    def losses(self, batch: Sequence[Example], loss: Loss, rng: random.Random) -> list[Tensor]:
        """Of first predictions; then of the later ones, and of the confidence in them, of blocks
        that start at every `block`-th position."""
        model, (ids, features) = self.model, self._padded_inputs(batch)
        anchors = torch.arange(rng.randrange(model.block), ids.shape[1], model.block)
        first, later = block_module.hidden_states(model, ids, features, anchors.to(ids.device))
        real = self._predicting(batch, ids)
        number = real.flatten().cumsum(0).view(real.shape) - 1  # of each output token
        p_logs, tokens = self._targets(batch, 0)
        found = [head_loss(loss, p_logs, tokens, first[real], self.head)]
        head = torch.cat([self.head, model.markov.next.weight], 1)
        for ahead in range(1, model.block):
            at = anchors[anchors + ahead < ids.shape[1]].to(ids.device)
            predicts = real[:, at] & real[:, at + ahead]
            if not predicts.any():
                break  # no output has this many tokens
            hidden = later[:, : len(at), ahead - 1][predicts]
            before = functional.embedding(ids[:, at + ahead][predicts], model.markov.before.weight)
            rows = number[:, at + ahead][predicts]
            watched = _Watched(loss)
            inputs = torch.cat([hidden, before], 1)
            part = head_loss(watched, p_logs[rows], tokens[rows], inputs, head)
            confidence = model.confidence(hidden.detach())[:, 0].float()
            accepted = torch.cat(watched.shared)
            unsure = functional.binary_cross_entropy_with_logits(confidence, accepted)
            found.append(DECAY**ahead * (part + unsure))
        return found


class _Watched:
    """A loss that also keeps Σ min(p, q) of each row, the probability that its token is accepted.

    Attributes:
        shared: [n] of each call.
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.shared: list[Tensor] = []

    def __call__(self, p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
        self.shared.append(shared_mass(p_logs, tokens, q_logits.detach()))
        return self._loss(p_logs, tokens, q_logits)
