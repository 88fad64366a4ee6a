"""How long the rest of a stage takes, at its pace so far."""

from __future__ import annotations

import time

__all__ = ["Pace"]


class Pace:
    """The pace of a stage that has just begun or goes on."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the stage began here."""
        return time.monotonic() - self._began

    def left(self, done: int, remaining: int) -> str:
        """The rest in words, with a comma before them: ", about 12 min left"; empty if unknown.

        Args:
            done: units since the stage began here.
            remaining: units that are left.
        """
        if done <= 0 or remaining <= 0:
            return ""
        minutes = self.seconds * remaining / done / 60
        return f", about {minutes:.0f} min left" if minutes >= 1 else ", less than 1 min left"
