"""The training of a draft, within seconds or steps."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from training_batch import Batch

from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.reading.eagle_module import Eagle, hidden_states
from edgespec_distill.training.budget import WARM_UP, Budget
from edgespec_distill.training.optimizer import MasterWeights

logger = logging.getLogger("gpu_drafts")

WEIGHTS = (1.0, 0.75, 0.5)  # of the losses of a round's first, second and third prediction
MOST_TV = 0.8
REPORT_EVERY = 10.0  # seconds


def losses(p: Tensor, q_logits: Tensor, tv: float) -> Tensor:
    """(1 - tv) · forward KL + tv · total variation of each row, [n].

    The KL lacks the entropy of p, which has no gradient. That of edgespec_distill is over the 64
    most probable tokens, which are stored; here p is whole.

    Args:
        p: [n, tokens] probabilities of the target for the draft's tokens.
        q_logits: [n, tokens] of the draft.
    """
    q_logits = q_logits.float()
    log_sum = q_logits.logsumexp(1)
    kl = p.sum(1) * log_sum - (p * q_logits).sum(1)
    if tv == 0:
        return kl
    q = (q_logits - log_sum[:, None]).exp()
    return (1 - tv) * kl + tv * (1 - torch.minimum(p, q).sum(1))


def tv_share(done: float) -> float:
    """The total variation's share of the loss: its gradient vanishes where q is far from p, so it
    comes when the draft knows something: 0 in the first fifth, all of it from the middle on."""
    return MOST_TV * min(1.0, max(0.0, (done - 0.2) / 0.3))


def rate_at(peak: float, steps: int, done: float) -> float:
    """The learning rate: rises at first, is constant, and falls to zero in the last 60 %."""
    return peak * min(1.0, (steps + 1) / WARM_UP, (1 - done) / 0.6)


def round_loss(draft: Eagle, batch: Batch, tv: float) -> Tensor:
    """The weighted sum of the mean losses of a round's predictions.

    Every prediction is computed at all positions, and those that no round reaches (the n-th before
    an output's n-th token) have no weight. To index by a mask instead, `hidden[mask]`, would wait
    for the GPU and copy p; its gradient would be added up in the order of a sort.
    """
    total = torch.zeros((), device=batch.p.device)
    predictions = hidden_states(draft, batch.ids, batch.features)
    for skipped, (weight, hidden) in enumerate(zip(WEIGHTS, predictions, strict=False)):
        rows = hidden.flatten(0, 1).index_select(0, batch.at)
        found = losses(batch.p, functional.linear(rows, draft.lm_head.weight), tv)
        counts = (batch.since >= skipped).float()
        total = total + weight * (found * counts).sum() / counts.sum().clamp(min=1)
    return total


def train(
    draft: Eagle,
    texts: Sequence[Text],
    read: Callable[[Sequence[Text]], Batch],
    budget: Budget,
    positions: int,
    rate: float,
) -> dict[str, Tensor]:
    """Trains a draft until the budget is used; returns its weights in float32 by name.

    Args:
        read: what the target says of some texts.
        positions: of a step, with those that fill up short texts.
        rate: the highest learning rate.
    """
    optimizer, rng = MasterWeights(draft, rate=rate), random.Random(1)
    passes, seen, told = 0, 0, time.monotonic()
    while budget.fraction < 1:
        for group in batches(texts, positions, rng):
            done = budget.fraction
            if done >= 1:
                break
            batch = read(group)
            loss = round_loss(draft, batch, tv_share(done))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step(rate_at(rate, budget.steps, done))
            budget.steps += 1
            seen += batch.ids.numel()
            if time.monotonic() - told > REPORT_EVERY:
                told = time.monotonic()
                logger.info(
                    f"step {budget.steps}, pass {passes + 1}, {done:.0%}, "
                    f"{seen / budget.seconds:.0f} positions/s, loss {loss.item():.3f}"
                )
        passes += 1
    logger.info(f"{budget.steps} steps, {passes} passes begun, {seen / 1e6:.1f}M positions")
    return optimizer.weights()
