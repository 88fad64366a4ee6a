"""How often a draft agrees with texts that its target wrote greedily."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from training_batch import Batch

from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.reading.eagle_module import Eagle, hidden_states
from edgespec_distill.training.loss import overlap

ROUND = 3  # predictions


@dataclass(frozen=True)
class Judgement:
    """A draft on some texts.

    Attributes:
        agreement: the share of rounds whose first, first two and first three predictions are the
            target's tokens.
        alpha: E Σ min(p, q) of first predictions.
        tokens: that were predicted.
    """

    agreement: tuple[float, ...]
    alpha: float
    tokens: int

    def __str__(self) -> str:
        per_call = 1 + sum(self.agreement)
        return (
            f"first choice {self.agreement[0]:.3f}, {per_call:.2f} tokens a call, "
            f"alpha {self.alpha:.3f} ({self.tokens} tokens)"
        )


@torch.no_grad()
def judged(
    draft: Eagle,
    texts: Sequence[Text],
    read: Callable[[Sequence[Text]], Batch],
    outputs: Tensor,
    positions: int,
) -> Judgement:
    """Means over all tokens of the texts' outputs.

    Args:
        read: what the target says of some texts.
        outputs: [draft's tokens] the target's ids of them.
        positions: that are read at once.
    """
    right, counts, shared = [0.0] * ROUND, [0] * ROUND, 0.0
    for group in batches(texts, positions, random.Random(0)):
        batch = read(group)
        so_far = torch.ones_like(batch.since, dtype=torch.bool)
        predictions = hidden_states(draft, batch.ids, batch.features)
        for skipped, hidden in zip(range(ROUND), predictions, strict=False):
            rows = hidden.flatten(0, 1).index_select(0, batch.at)
            q_logits = functional.linear(rows, draft.lm_head.weight)
            # A round's next prediction is one position further.
            so_far = so_far.roll(min(skipped, 1)) & (outputs[q_logits.argmax(1)] == batch.tokens)
            reached = batch.since >= skipped
            right[skipped] += float((so_far & reached).sum())
            counts[skipped] += int(reached.sum())
            if skipped == 0:
                shared += float(overlap(batch.p, q_logits.float()).sum())
    agreement = tuple(r / max(1, n) for r, n in zip(right, counts, strict=True))
    return Judgement(agreement, shared / counts[0], counts[0])
