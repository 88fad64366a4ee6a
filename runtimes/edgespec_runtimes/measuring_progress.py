"""Says how long a measurement takes on a slow device, and how far it is."""

from __future__ import annotations

import logging
import time

__all__ = ["MeasuringProgress"]

SAY_EVERY = 10.0  # seconds; nothing is said of measurements that take less

logger = logging.getLogger("edgespec")


class MeasuringProgress:
    """Counts the calls of a measurement, which begins now.

    Args:
        calls: that it makes, about.
    """

    def __init__(self, calls: int) -> None:
        self._began = self._said = time.monotonic()
        self._expected = calls
        self._calls = 0

    def call(self) -> None:
        """Counts a call; logs an estimate after the second one, and how far it is every ten
        seconds."""
        self._calls += 1
        now = time.monotonic()
        each = (now - self._began) / self._calls
        if self._calls == 2 and each * self._expected > SAY_EVERY:
            calls, seconds = self._expected, each * self._expected
            logger.info("about %d calls of %.1f s: %.0f s; Ctrl-C ends it", calls, each, seconds)
        elif now - self._said > SAY_EVERY:
            self._said = now
            logger.info("%d of about %d calls", self._calls, self._expected)
