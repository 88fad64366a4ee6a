"""Lines at the end of a terminal that may still change, below those that may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

__all__ = ["LiveLines"]

BEGIN_OF_LINE, ERASE_BELOW = "\r", "\x1b[J"


class LiveLines:
    """Draws lines over those that it drew before. Each must fit the terminal's width.

    Args:
        file: of the terminal.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._drawn = 0  # lines that are on the screen and may change; the cursor is in the last
        self._kept = 0  # lines of the current text that have left the screen's reach

    def show(self, lines: Sequence[str], height: int) -> None:
        """Draws the current text, all of its lines. Those that the screen has no room for scroll
        away and stay as they are."""
        beyond = max(0, len(lines) - max(1, height - 1))
        self._draw(lines[self._kept :])
        self._drawn -= max(0, beyond - self._kept)
        self._kept = max(self._kept, beyond)

    def keep(self, lines: Sequence[str]) -> None:
        """Draws the current text for the last time; the next one is below it."""
        self._draw(lines[self._kept :])
        if self._drawn:
            self._file.write("\n")
            self._file.flush()
        self._drawn = self._kept = 0

    def _draw(self, lines: Sequence[str]) -> None:
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        erase = up + BEGIN_OF_LINE + ERASE_BELOW if self._drawn else ""
        self._file.write(erase + "\n".join(lines))
        self._file.flush()
        self._drawn = len(lines)
