"""The training of a draft, within seconds or steps."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from compiled import compiled_on_gpu
from torch import Tensor
from torch.nn import functional
from training_batch import Batch

from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.reading.eagle_module import Eagle, hidden_states
from edgespec_distill.training.budget import WARM_UP, Budget
from edgespec_distill.training.optimizer import MasterWeights

logger = logging.getLogger("gpu_drafts")

WEIGHTS = (1.0, 0.75, 0.5)  # of the losses of a round's first, second and third prediction
REPORT_EVERY = 10.0  # seconds


@dataclass(frozen=True)
class Objective:
    """What a draft is trained for.

    Attributes:
        temperature: of both distributions, p and q, when they are compared.
        most_tv: the total variation's share of the loss in the second half.
    """

    temperature: float = 1.0
    most_tv: float = 0.8

    def tv_share(self, done: float) -> float:
        """The total variation's share of the loss: its gradient vanishes where q is far from p, so
        it comes when the draft knows something: 0 in the first fifth, all from the middle on."""
        return self.most_tv * min(1.0, max(0.0, (done - 0.2) / 0.3))


@compiled_on_gpu
def losses(p: Tensor, q_logits: Tensor, tv: Tensor) -> Tensor:
    """(1 - tv) · forward KL + tv · total variation of each row, [n].

    The KL lacks the entropy of p, which has no gradient. That of edgespec_distill is over the 64
    most probable tokens, which are stored; here p is whole.

    Args:
        p: [n, tokens] probabilities of the target for the draft's tokens.
        q_logits: [n, tokens] of the draft.
        tv: one number as a tensor; for plain numbers, each would be compiled.
    """
    q_logits = q_logits.float()
    log_sum = q_logits.logsumexp(1)
    kl = p.sum(1) * log_sum - (p * q_logits).sum(1)
    shared = torch.minimum(p, (q_logits - log_sum[:, None]).exp()).sum(1)
    return (1 - tv) * kl + tv * (1 - shared)


def rate_at(peak: float, steps: int, done: float) -> float:
    """The learning rate: rises at first, is constant, and falls to zero in the last 60 %."""
    return peak * min(1.0, (steps + 1) / WARM_UP, (1 - done) / 0.6)


def round_loss(draft: Eagle, batch: Batch, tv: Tensor, temperature: float) -> Tensor:
    """The weighted sum of the mean losses of a round's predictions.

    Every prediction is computed at all positions, and those that no round reaches (the n-th before
    an output's n-th token) have no weight. To index by a mask instead, `hidden[mask]`, would wait
    for the GPU and copy p; its gradient would be added up in the order of a sort.

    Args:
        batch: with the target's probabilities at the temperature.
    """
    total = torch.zeros((), device=batch.p.device)
    predictions = hidden_states(draft, batch.ids, batch.features)
    for skipped, (weight, hidden) in enumerate(zip(WEIGHTS, predictions, strict=False)):
        rows = hidden.flatten(0, 1).index_select(0, batch.at) / temperature
        found = losses(batch.p, functional.linear(rows, draft.lm_head.weight), tv)
        counts = (batch.since >= skipped).float()
        total = total + weight * (found * counts).sum() / counts.sum().clamp(min=1)
    return total


def train(
    draft: Eagle,
    texts: Sequence[Text],
    read: Callable[..., Batch],
    budget: Budget,
    positions: int,
    rate: float,
    objective: Objective = Objective(),
    seed: int = 0,
) -> dict[str, Tensor]:
    """Trains a draft until the budget is used; returns its weights in float32 by name.

    Args:
        read: what the target says of some texts, at the `temperature` that it is given.
        positions: of a step, with those that fill up short texts.
        rate: the highest learning rate.
        seed: of the order of the texts.
    """
    optimizer = MasterWeights(draft, rate=rate)
    groups = endless_batches(texts, positions, random.Random(seed))
    heat = objective.temperature
    batch = read(next(groups), temperature=heat)
    seen, told = 0, time.monotonic()
    while (done := budget.fraction) < 1:
        tv = batch.p.new_tensor(objective.tv_share(done))
        loss = round_loss(draft, batch, tv, heat)
        loss.backward()  # type: ignore[no-untyped-call]
        seen += batch.ids.numel()
        batch = read(next(groups), temperature=heat)  # before the step, which waits for the GPU
        optimizer.step(rate_at(rate, budget.steps, done))
        budget.steps += 1
        if time.monotonic() - told > REPORT_EVERY:
            told = time.monotonic()
            logger.info(
                f"step {budget.steps}, {done:.0%}, {seen / budget.seconds:.0f} positions/s, "
                f"loss {loss.item():.3f}"
            )
    logger.info(f"{budget.steps} steps, {seen / 1e6:.1f}M positions")
    return optimizer.weights()


def endless_batches(
    texts: Sequence[Text], positions: int, rng: random.Random
) -> Iterator[list[Text]]:
    """Passes over all texts, one after the other, each in batches of its own."""
    while True:
        yield from batches(texts, positions, rng)
