"""The draft's acceptance on texts that it is not trained on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.trainable import ScoringModel
from edgespec_distill.result import Acceptance
from edgespec_distill.training.loss import overlap

__all__ = ["HeldOut", "greedy_acceptance"]

POSITIONS = 2048  # compared at once
ROWS = 256  # of them whose logits are in memory: those of a whole vocabulary take gigabytes
STORED_PROBABILITIES = 2**28  # half a gigabyte


class HeldOut:
    """Greedy and sampled outputs of the target that measure a draft's acceptance.

    The target's distributions of the sampled outputs are computed once and kept in memory, for as
    many texts as there is room.

    Args:
        vocabulary: of the draft; p is stored only for the tokens that the draft has.
    """

    @torch.no_grad()
    def __init__(
        self,
        target: ScoringModel,
        vocabulary: DraftVocabulary,
        greedy: Sequence[Text],
        sampled: Sequence[Text],
    ) -> None:
        self._greedy = greedy
        outputs = vocabulary.outputs.to(target.model.device)
        positions = max(1, STORED_PROBABILITIES // len(vocabulary.outputs))
        self._sampled = _groups(_first_texts(sampled, positions))
        self._distributions = [
            torch.cat([_probabilities(target, text)[:, outputs].half() for text in group])
            for group in self._sampled
        ]

    @torch.no_grad()
    def acceptance(self, draft: ScoringModel) -> Acceptance:
        """Means over all positions."""
        shared = [
            overlap(p_rows.float(), q_logits)
            for group, p in zip(self._sampled, self._distributions, strict=True)
            for p_rows, q_logits in zip(torch.split(p, ROWS), _logits(draft, group), strict=True)
        ]
        greedy = greedy_acceptance(draft, self._greedy)
        return Acceptance(greedy, torch.cat(shared).mean().item())


@torch.no_grad()
def greedy_acceptance(draft: ScoringModel, texts: Sequence[Text]) -> float:
    """`Acceptance.greedy` on these texts."""
    same = []
    for group in _groups(texts):
        choices = torch.cat([part.argmax(-1) for part in _logits(draft, group)])
        best = draft.vocabulary.outputs[choices.cpu()]
        same.append(best == torch.cat([torch.tensor(text.output) for text in group]))
    return torch.cat(same).float().mean().item()


def _probabilities(target: ScoringModel, text: Text) -> Tensor:
    """[tokens of the output, target's tokens]."""
    return target.logits([text]).float().softmax(-1)


def _logits(draft: ScoringModel, texts: Sequence[Text]) -> Iterator[Tensor]:
    """[ROWS, draft's tokens] of first predictions, part after part."""
    for hidden in torch.split(next(draft.hidden_states(texts)), ROWS):
        yield functional.linear(hidden, draft.head).float()


def _groups(texts: Sequence[Text]) -> list[list[Text]]:
    return list(batches(texts, POSITIONS, random.Random(0)))


def _first_texts(texts: Sequence[Text], positions: int) -> Sequence[Text]:
    """As many of the first texts, at least one, as have this number of output positions."""
    ends = accumulate(len(text.output) for text in texts)
    return texts[: max(1, sum(end <= positions for end in ends))]
