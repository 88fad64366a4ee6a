"""The time or number of steps of a training, across interruptions."""

from __future__ import annotations

import time

__all__ = ["Budget"]

WARM_UP = 100  # steps


class Budget:
    """A budget of minutes or steps.

    Args:
        minutes, steps: exactly one of them.
        done_seconds, done_steps: used by earlier runs of the same training.
    """

    def __init__(
        self,
        *,
        minutes: float | None,
        steps: int | None,
        done_seconds: float = 0.0,
        done_steps: int = 0,
    ) -> None:
        self._minutes = minutes
        self._max_steps = steps
        self.steps = done_steps
        self._before = done_seconds
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """The used time, including earlier runs."""
        return self._before + time.monotonic() - self._began

    @property
    def fraction(self) -> float:
        """The used share of the budget, from 0 to 1."""
        if self._minutes is not None:
            return min(1.0, self.seconds / (60 * self._minutes))
        assert self._max_steps is not None
        return min(1.0, self.steps / self._max_steps)

    @property
    def seconds_left(self) -> float:
        """An estimate from the pace so far."""
        used = self.fraction
        return self.seconds * (1 - used) / used if used else 0.0

    def rate(self, peak: float) -> float:
        """The learning rate: rises at first, is constant, and falls to zero in the second half."""
        return peak * min(1.0, (self.steps + 1) / WARM_UP, 2 * (1 - self.fraction))
