"""The training loop: chunks of examples in, a better draft out, its state on disk as it goes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.examples import Example, batches
from edgespec_distill.data.held_out import Acceptance
from edgespec_distill.models.trainable import Student
from edgespec_distill.training.budget import Budget
from edgespec_distill.training.optimizer import MasterWeights
from edgespec_distill.training.wide_head import Loss, head_loss

__all__ = ["Report", "Training"]

SAVE_EVERY = 60.0  # seconds
FIRST_LOOK = 20.0  # seconds
GUESSES = 3  # one behind the other, at most, of a draft that goes on from its guesses


@dataclass(frozen=True)
class Report:
    """How a training stands: what a progress display shows."""

    fraction: float
    seconds_left: float
    steps: int
    loss: float
    acceptance: Acceptance


class Training:
    """A draft in training; `run` returns when the budget is spent.

    Args:
        state: the file that an interrupted training goes on from.
        evaluate: measures the draft on held-out texts.
        report: told how it stands, once every few seconds.
    """

    def __init__(
        self,
        draft: Student,
        loss: Loss,
        *,
        rate: float,
        minutes: float | None,
        steps: int | None,
        positions: int,
        seed: int,
        state: Path,
        evaluate: Callable[[], Acceptance],
        report: Callable[[Report], object],
    ) -> None:
        self._draft, self._loss, self._rate, self._positions = draft, loss, rate, positions
        self._state, self._evaluate, self._report = state, evaluate, report
        self._probability = random.Random(seed)
        self.optimizer = MasterWeights(draft.model, rate=rate)
        done: dict[str, Any] = {"done_seconds": 0.0, "done_steps": 0}
        self._mean_loss = 0.0
        if state.exists():
            saved = torch.load(state, weights_only=True, map_location=draft.model.device)
            self.optimizer.load_state_dict(saved["optimizer"])
            done = saved["done"]
            self._probability.seed(seed + done["done_steps"])
            self.before = Acceptance(**saved["before"])
        else:
            self.before = evaluate()
        self.budget = Budget(minutes=minutes, steps=steps, **done)

    def run(self, chunks: Iterable[Sequence[Example]]) -> Acceptance:
        """Trains on one chunk after another; returns what the draft is worth in the end."""
        now = self._evaluate() if self.budget.steps else self.before
        self._save()
        saved = shown = time.monotonic()
        due = saved + FIRST_LOOK
        try:
            for batch in self._batches(chunks):
                self._step(batch)
                tick = time.monotonic()
                if tick > due:
                    now = self._evaluate()
                    # A tenth of the time at most goes into looking.
                    due = time.monotonic() + max(FIRST_LOOK, 9 * (time.monotonic() - tick))
                if tick - shown > 2:
                    self._tell(now)
                    shown = tick
                if tick - saved > SAVE_EVERY:
                    self._save()
                    saved = tick
        finally:
            self._save()
        now = self._evaluate()
        self._tell(now)
        return now

    def _batches(self, chunks: Iterable[Sequence[Example]]) -> Iterator[list[Example]]:
        for chunk in chunks:
            for batch in batches(chunk, self._positions, self._probability):
                if self.budget.fraction >= 1:
                    return
                yield batch

    def _step(self, batch: list[Example]) -> None:
        device = self._draft.model.device
        losses = []
        count = self._probability.randint(1, GUESSES)  # the first one is what matters most
        for known, hidden in zip(range(count), self._draft.guesses(batch), strict=False):
            if not len(hidden):  # no text is as long
                break
            logs = torch.cat([example.logs[known:] for example in batch]).to(device).float()
            tokens = torch.cat([example.tokens[known:] for example in batch]).to(device).long()
            losses.append(head_loss(self._loss, logs, tokens, hidden, self._draft.head))
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.budget.rate(self._rate))
        self.budget.steps += 1
        weight = max(0.02, 1 / self.budget.steps)
        self._mean_loss += weight * (losses[0].item() - self._mean_loss)

    def _tell(self, now: Acceptance) -> None:
        budget = self.budget
        self._report(
            Report(budget.fraction, budget.seconds_left, budget.steps, self._mean_loss, now)
        )

    def _save(self) -> None:
        done = {"done_seconds": self.budget.seconds, "done_steps": self.budget.steps}
        state = {"optimizer": self.optimizer.state_dict(), "done": done}
        with whole_file(self._state) as aside:
            torch.save({**state, "before": asdict(self.before)}, aside)
