"""The training loop, which saves its state to disk as it goes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.derived_seed import derived_seed
from edgespec_distill.data.examples import Example, batches
from edgespec_distill.models.trainable import ScoringModel
from edgespec_distill.result import Acceptance
from edgespec_distill.training.budget import Budget
from edgespec_distill.training.memory import return_freed_memory, trim_above
from edgespec_distill.training.optimizer import MasterWeights
from edgespec_distill.training.wide_head import Loss

__all__ = ["Training", "TrainingProgress"]

SAVE_EVERY = 60.0  # seconds
SAVE_PAUSE = 20.0  # times as long as saving takes, at least
EVALUATE_AFTER = 20.0  # seconds
REPORT_EVERY = 2.0  # seconds


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a training, for a display.

    Attributes:
        fraction: of the budget, from 0 to 1.
        loss: moving average.
        acceptance: on held-out texts, when last measured.
    """

    fraction: float
    seconds_left: float
    steps: int
    loss: float
    acceptance: Acceptance


class Training:
    """The training of a draft within a budget.

    Args:
        rate: the highest learning rate.
        minutes, steps: the budget; exactly one of them.
        positions: of a batch.
        state: the file from which an interrupted training continues.
        most_memory: bytes; above it what steps have freed goes back to the system.
        evaluate: measures the draft on held-out texts.
        report: called with the progress every few seconds.
    """

    def __init__(
        self,
        draft: ScoringModel,
        loss: Loss,
        *,
        rate: float,
        minutes: float | None,
        steps: int | None,
        positions: int,
        seed: int,
        state: Path,
        most_memory: float,
        evaluate: Callable[[], Acceptance],
        report: Callable[[TrainingProgress], object],
    ) -> None:
        self._draft, self._loss, self._rate, self._positions = draft, loss, rate, positions
        self._state, self._evaluate, self._report = state, evaluate, report
        self._seed, self._most_memory = seed, most_memory
        self.optimizer = MasterWeights(draft.model, rate=rate)
        done: dict[str, Any] = {"done_seconds": 0.0, "done_steps": 0}
        self._chunk, self._batch = 0, 0  # the next batch is this one of this chunk
        self._mean_loss = 0.0
        if state.exists():
            saved = torch.load(state, weights_only=True, map_location=draft.model.device)
            self.optimizer.load_state_dict(saved["optimizer"])
            done = saved["done"]
            self._chunk, self._batch = saved["next_batch"]
            self.before = Acceptance(**saved["before"])
        else:
            self.before = evaluate()
        self.budget = Budget(minutes=minutes, steps=steps, **done)

    def run(self, chunk: Callable[[int], Sequence[Example]]) -> Acceptance:
        """Trains until the budget is used; returns the acceptance.

        A run that was interrupted goes on with the batch after the last that was saved, so it has
        the result of one that was not.

        Args:
            chunk: the examples of chunk 0, 1, …: of a number that is asked for again the same ones.
        """
        acceptance = self._evaluate() if self.budget.steps else self.before
        self._save()
        reported = time.monotonic()
        save_due, evaluation_due = reported + SAVE_EVERY, reported + EVALUATE_AFTER
        for batch in self._batches(chunk):
            self._step(batch)
            trim_above(self._most_memory)
            now = time.monotonic()
            if now > evaluation_due:
                acceptance = self._evaluate()
                # Evaluation takes a tenth of the time at most.
                pause = max(EVALUATE_AFTER, 9 * (time.monotonic() - now))
                evaluation_due = time.monotonic() + pause
            if now - reported > REPORT_EVERY:
                self._report_progress(acceptance)
                reported = now
            if now > save_due:
                self._save()
                took = time.monotonic() - now
                save_due = time.monotonic() + max(SAVE_EVERY, SAVE_PAUSE * took)
        self._save()
        acceptance = self._evaluate()
        self._report_progress(acceptance)
        return acceptance

    def _batches(self, chunk: Callable[[int], Sequence[Example]]) -> Iterator[list[Example]]:
        """The batches from the next one on."""
        while self.budget.fraction < 1:
            rng = random.Random(derived_seed(self._seed, "order", self._chunk))
            found = list(batches(chunk(self._chunk), self._positions, rng))
            for batch in found[self._batch :]:
                if self.budget.fraction >= 1:
                    return
                yield batch
            self._chunk, self._batch = self._chunk + 1, 0
            self._save()  # the draft may write the next chunk, which the present weights determine

    def _step(self, batch: list[Example]) -> None:
        rng = random.Random(derived_seed(self._seed, "step", self.budget.steps))
        losses = self._draft.losses(batch, self._loss, rng)
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.budget.rate(self._rate))
        self.budget.steps += 1
        self._batch += 1
        weight = max(0.02, 1 / self.budget.steps)
        self._mean_loss += weight * (losses[0].item() - self._mean_loss)

    def _report_progress(self, acceptance: Acceptance) -> None:
        budget = self.budget
        self._report(
            TrainingProgress(
                budget.fraction, budget.seconds_left, budget.steps, self._mean_loss, acceptance
            )
        )

    def _save(self) -> None:
        done = {"done_seconds": self.budget.seconds, "done_steps": self.budget.steps}
        state = {
            "optimizer": self.optimizer.state_dict(),
            "done": done,
            "next_batch": (self._chunk, self._batch),
        }
        with whole_file(self._state) as aside:
            torch.save({**state, "before": asdict(self.before)}, aside)
        return_freed_memory()
