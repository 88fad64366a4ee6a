"""How long a training may take, across its interruptions."""

from __future__ import annotations

import time

__all__ = ["Budget"]

WARM_UP = 100  # steps


class Budget:
    """Minutes or steps, of which a fraction is spent.

    Args:
        minutes, steps: exactly one of them.
        done_seconds, done_steps: spent by earlier runs of the same training.
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
        self._most = steps
        self.steps = done_steps
        self._before = done_seconds
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def fraction(self) -> float:
        """Spent, from 0 to 1."""
        if self._minutes is not None:
            return min(1.0, self.seconds / (60 * self._minutes))
        assert self._most is not None
        return min(1.0, self.steps / self._most)

    @property
    def seconds_left(self) -> float:
        """At the pace so far."""
        spent = self.fraction
        return self.seconds * (1 - spent) / spent if spent else 0.0

    def rate(self, peak: float) -> float:
        """The learning rate: up at the start, level, and down to zero over the second half."""
        return peak * min(1.0, (self.steps + 1) / WARM_UP, 2 * (1 - self.fraction))
