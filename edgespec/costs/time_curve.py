"""A time that depends on a count, from few measurements: complete, robust to spikes, up to date."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

__all__ = ["TimeCurve"]


class TimeCurve:
    """The seconds that something takes with a count of 1, 2, … of something.

    A count's time is the lower median of its latest measurements: spikes only make times longer.
    Counts without a measurement follow the guess, scaled as the nearest measured counts are. A
    larger count takes no less time than a smaller one.

    Args:
        guess: [counts] times in any unit, for counts from 1; only their ratios matter.
    """

    WINDOW = 8  # measurements of a count
    AGE = 512  # rounds after which a measurement is forgotten
    FIRST = 2  # measurements in all before the curve is known
    # A single measurement is believed up to this multiple of what others suggest.
    SINGLE_TIME_LIMIT = 1.25

    def __init__(self, guess: Sequence[float]) -> None:
        self._guess = guess
        self._measured: dict[int, deque[tuple[int, float]]] = {}  # by count: round and seconds

    def add(self, count: int, seconds: float, round_number: int) -> None:
        """Reports a measurement in a round; counts beyond the curve and times of 0 are ignored."""
        if 1 <= count <= len(self._guess) and seconds > 0:
            times = self._measured.setdefault(count, deque(maxlen=self.WINDOW))
            times.append((round_number, seconds))

    def latest(self, count: int) -> int | None:
        """The round in which a count was measured last."""
        times = self._measured.get(count)
        return times[-1][0] if times else None

    def seconds(self, round_number: int) -> list[float] | None:
        """[counts] the times as of a round; None while nothing, or almost nothing, is measured."""
        recent = self._recent(round_number - self.AGE)
        if sum(map(len, recent.values())) < self.FIRST:
            return None
        typical = _lower_median([r for ratios in recent.values() for r in ratios])
        known = {
            count: _lower_median(ratios)
            if len(ratios) > 1
            else min(*ratios, self.SINGLE_TIME_LIMIT * typical)
            for count, ratios in recent.items()
        }
        found = [
            guess * _interpolated(known, count) for count, guess in enumerate(self._guess, start=1)
        ]
        for index in range(len(found) - 1, 0, -1):
            found[index - 1] = min(found[index - 1], found[index])
        return found

    def _recent(self, oldest: int) -> dict[int, list[float]]:
        """Measured over guessed times of each count; older measurements are dropped."""
        for times in self._measured.values():
            while times and times[0][0] < oldest:
                times.popleft()
        return {
            count: [seconds / self._guess[count - 1] for _, seconds in times]
            for count, times in sorted(self._measured.items())
            if times
        }


def _lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def _interpolated(known: dict[int, float], count: int) -> float:
    """Linear between known counts (in increasing order), constant beyond them."""
    below = above = None
    for other, value in known.items():
        if other <= count:
            below = other, value
        if other >= count:
            above = other, value
            break
    if below is None or above is None or below[0] == above[0]:
        return (below or above or (0, 1.0))[1]
    share = (count - below[0]) / (above[0] - below[0])
    return below[1] + share * (above[1] - below[1])
