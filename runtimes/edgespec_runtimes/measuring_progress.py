"""Says how long a measurement takes, and how far it is."""

from __future__ import annotations

import logging
import time

from edgespec.device.live_progress import say_live

__all__ = ["MeasuringProgress"]

SAY_EVERY = 10.0  # seconds; nothing is said of measurements that take less
SHOW_EVERY = 0.2  # seconds, where a line can change

logger = logging.getLogger("edgespec")


class MeasuringProgress:
    """Counts the calls of a measurement, which begins now.

    Args:
        calls: that it makes, about.
    """

    def __init__(self, calls: int) -> None:
        self._began = self._said = self._shown = time.monotonic()
        self._expected = calls
        self._calls = 0

    def call(self) -> None:
        """Counts a call. A terminal shows how long the rest will take; elsewhere an estimate is
        logged after the second call, and how far it is every ten seconds."""
        self._calls += 1
        now = time.monotonic()
        each = (now - self._began) / self._calls
        if self._calls >= 2 and now - self._shown > SHOW_EVERY:
            self._shown = now
            left = each * max(0, self._expected - self._calls)
            done = min(100, 100 * self._calls // self._expected)
            if say_live(f"{done} % of the test, about {left:.0f} s left; Ctrl-C ends it"):
                return
        if self._calls == 2 and each * self._expected > SAY_EVERY:
            calls, seconds = self._expected, each * self._expected
            logger.info("about %d calls of %.1f s: %.0f s; Ctrl-C ends it", calls, each, seconds)
        elif now - self._said > SAY_EVERY:
            self._said = now
            logger.info("%d of about %d calls", self._calls, self._expected)
