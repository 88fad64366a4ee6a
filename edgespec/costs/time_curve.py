"""A time that depends on a count, from few measurements: complete, robust to spikes, up to date."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["TimeCurve"]


class TimeCurve:
    """The seconds that something takes with a count of 1, 2, … of something.

    A count's time is the lower median of its latest measurements: spikes only make times longer.
    What took much longer than the latest is forgotten: it was a spike, or the machine was busy.
    Counts without a measurement follow the guess, scaled as the nearest measured counts are. A
    larger count takes no less time than a smaller one.

    Args:
        guess: [counts] times in any unit, for counts from 1; only their ratios matter.
    """

    WINDOW = 8  # measurements of a count
    AGE = 512  # rounds after which a measurement is forgotten
    FIRST = 2  # measurements in all before the curve is known
    # A single measurement is believed up to this multiple of what others suggest, an older one up
    # to that of the latest.
    SPIKE = 1.25

    def __init__(self, guess: Sequence[float]) -> None:
        self._guess = guess
        self._measured: dict[int, list[tuple[int, float]]] = {}  # by count: round and seconds

    def add(self, count: int, seconds: float, round_number: int) -> None:
        """Reports a measurement in a round; counts beyond the curve and times of 0 are ignored."""
        if 1 <= count <= len(self._guess) and seconds > 0:
            kept = [old for old in self._measured.get(count, ()) if old[1] <= self.SPIKE * seconds]
            self._measured[count] = [*kept, (round_number, seconds)][-self.WINDOW :]

    def seconds(self, round_number: int) -> list[float] | None:
        """[counts] the times as of a round; None while nothing, or almost nothing, is measured."""
        recent = self._recent(round_number - self.AGE)
        if sum(map(len, recent.values())) < self.FIRST:
            return None
        typical = _lower_median([r for ratios in recent.values() for r in ratios])
        known = {
            count: _lower_median(ratios) if len(ratios) > 1 else min(*ratios, self.SPIKE * typical)
            for count, ratios in recent.items()
        }
        counts = range(1, len(self._guess) + 1)
        ratios = np.interp(counts, [*known], [*known.values()]).tolist()
        found = [guess * ratio for guess, ratio in zip(self._guess, ratios, strict=True)]
        for index in range(len(found) - 1, 0, -1):
            found[index - 1] = min(found[index - 1], found[index])
        return found

    def _recent(self, oldest: int) -> dict[int, list[float]]:
        """Measured over guessed times of each count, in increasing order, without older ones."""
        return {
            count: ratios
            for count, times in sorted(self._measured.items())
            if (ratios := [s / self._guess[count - 1] for number, s in times if number >= oldest])
        }


def _lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]
