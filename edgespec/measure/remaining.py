"""How much of a measurement is left, as lines of the log."""

from __future__ import annotations

import logging
import time

__all__ = ["Remaining"]

EVERY_S = 3.0

logger = logging.getLogger("edgespec")


class Remaining:
    """Logs how many parts of a measurement are done and the time that the others take, every few
    seconds.

    Args:
        parts: how many there are, about as long as each other.
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._done = 0
        self._began = self._said = time.monotonic()

    def part_done(self) -> None:
        """One more is measured, or left out."""
        self._done += 1
        now = time.monotonic()
        if self._done < self._parts and now - self._said >= EVERY_S:
            self._said = now
            left = (now - self._began) * (self._parts - self._done) / self._done
            logger.info("%d of %d done, about %s left", self._done, self._parts, _length(left))


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
