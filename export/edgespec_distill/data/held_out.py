"""Texts that are not trained on, and how often a draft agrees with the target on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from edgespec_distill.data.draft_vocabulary import Vocabulary
from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.trainable import Student
from edgespec_distill.training.loss import overlap

__all__ = ["Acceptance", "HeldOut", "greedy_acceptance"]

POSITIONS = 2048  # compared at once
KEPT = 2**28  # probabilities, half a gigabyte


@dataclass(frozen=True)
class Acceptance:
    """On texts that were not trained on.

    Attributes:
        greedy: share of positions of the target's greedy outputs where the arg-max is the same.
        sampled: the paper's α at temperature 1, E Σ min(p, q), on the target's sampled outputs.
    """

    greedy: float
    sampled: float


class HeldOut:
    """Two sets of the target's outputs; its distributions of the sampled ones are computed once and kept,
    of as many texts as there is room for.

    Args:
        vocabulary: of the draft; of p, no more is needed than what the draft can say.
    """

    @torch.no_grad()
    def __init__(
        self,
        target: Student,
        vocabulary: Vocabulary,
        greedy: Sequence[Text],
        sampled: Sequence[Text],
    ) -> None:
        self._greedy = greedy
        outputs = vocabulary.outputs.to(target.model.device)
        most = max(1, KEPT // len(vocabulary.outputs))  # positions
        self._sampled = _groups(_beginning(sampled, most))
        self._distributions = [
            target.logits(group).float().softmax(-1)[:, outputs].half() for group in self._sampled
        ]

    @torch.no_grad()
    def acceptance(self, draft: Student) -> Acceptance:
        """Over every position."""
        shared = [
            overlap(p.float(), draft.logits(group).float())
            for group, p in zip(self._sampled, self._distributions, strict=True)
        ]
        greedy = greedy_acceptance(draft, self._greedy)
        return Acceptance(greedy, torch.cat(shared).mean().item())


@torch.no_grad()
def greedy_acceptance(draft: Student, texts: Sequence[Text]) -> float:
    """`Acceptance.greedy` on these texts."""
    same = []
    for group in _groups(texts):
        own = draft.vocabulary.outputs[draft.logits(group).argmax(-1).cpu()]
        same.append(own == torch.cat([torch.tensor(text.output) for text in group]))
    return torch.cat(same).float().mean().item()


def _groups(texts: Sequence[Text]) -> list[list[Text]]:
    return list(batches(texts, POSITIONS, random.Random(0)))


def _beginning(texts: Sequence[Text], positions: int) -> Sequence[Text]:
    """The first texts, at least one, whose outputs have no more positions."""
    ends = accumulate(len(text.output) for text in texts)
    return texts[: max(1, sum(end <= positions for end in ends))]
