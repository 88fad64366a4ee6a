"""Where somebody speaks, by the probability of it, and the sound of these parts alone."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgespec.audio.sound import RATE, Samples, Sound
from edgespec.errors import UsageError, shortened

__all__ = ["FRAME", "SpokenSound", "VoiceOptions", "spoken_ranges"]

FRAME = 512  # samples that a probability is about: 32 ms
HYSTERESIS = 0.15  # a voice ends this far below the threshold


@dataclass(frozen=True)
class VoiceOptions:
    """What counts as a voice. The defaults are those of faster-whisper.

    Attributes:
        threshold: probability from which on somebody speaks.
        min_silence: seconds of silence that end a part; shorter pauses belong to it.
        padding: seconds of sound that are kept around a part.

    Raises:
        UsageError: one is out of its range.
    """

    threshold: float = 0.5
    min_silence: float = 2.0
    padding: float = 0.4

    def __post_init__(self) -> None:
        for name, most in (("threshold", 1), ("min_silence", 60), ("padding", 10)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= most:
                raise UsageError(f"the voices' {name} is {shortened(value)}; give 0 to {most}")


def spoken_ranges(
    probabilities: Iterable[float], length: int, options: VoiceOptions
) -> list[tuple[int, int]]:
    """The parts of a sound in which somebody speaks, as samples from … to.

    Silero's `get_speech_timestamps`: a voice begins at the threshold and ends below a lower one
    that lasts `min_silence`; padding is shared by parts that are nearer than two of it.

    Args:
        probabilities: of each `FRAME` samples.
        length: samples of the sound.
    """
    found: list[list[int]] = []
    low = max(options.threshold - HYSTERESIS, 0.01)
    pause = options.min_silence * RATE
    start: int | None = None
    silent_from: int | None = None
    for index, probability in enumerate(probabilities):
        at = index * FRAME
        if probability >= options.threshold:
            silent_from = None
            start = at if start is None else start
        elif probability < low and start is not None:
            silent_from = at if silent_from is None else silent_from
            if at - silent_from >= pause:
                found.append([start, silent_from])
                start = silent_from = None
    if start is not None and start < length:
        found.append([start, length])
    return _padded(found, length, round(options.padding * RATE))


def _padded(ranges: list[list[int]], length: int, padding: int) -> list[tuple[int, int]]:
    if not ranges:
        return []
    ranges[0][0] = max(0, ranges[0][0] - padding)
    ranges[-1][1] = min(length, ranges[-1][1] + padding)
    for before, after in itertools.pairwise(ranges):
        between = after[0] - before[1]
        added = between // 2 if between < 2 * padding else padding
        before[1] += added
        after[0] -= added
    return [(start, end) for start, end in ranges]


class SpokenSound:
    """Parts of a sound, one after the other, as `edgespec.audio.sound.Sound`.

    Args:
        sound: with `RATE` samples per second.
        ranges: the parts, in order, as samples from … to.
    """

    rate = RATE

    def __init__(self, sound: Sound, ranges: Sequence[tuple[int, int]]) -> None:
        self._sound, self._ranges = sound, ranges
        # Where each part ends here.
        self._ends = list(itertools.accumulate(end - start for start, end in ranges))
        self.length = self._ends[-1] if self._ends else 0

    def read(self, start: int, count: int) -> Samples:
        """See `edgespec.audio.sound.Sound.read`."""
        found = np.zeros(count, np.float32)
        at, last = max(start, 0), min(start + count, self.length)
        while at < last:
            part = bisect.bisect(self._ends, at)
            stop = min(last, self._ends[part])
            found[at - start : stop - start] = self._sound.read(self._there(at, part), stop - at)
            at = stop
        return found

    def original(self, start: float, end: float, padding: float = 0.0) -> tuple[float, float]:
        """When in the whole sound something is, from when it starts and ends here, in seconds.

        Args:
            padding: seconds at the border of two parts in which nobody speaks: what reaches only so
                far into another part belongs to its own.
        """
        first, last = round(start * RATE), round(end * RATE)
        slack = min(round(padding * RATE), max(0, last - first) // 2)
        at, to = self._part(first), self._part(last, ends=True)
        if at < self._part(first + slack):
            first, at = self._ends[at], at + 1
        if at < to and self._part(last - slack, ends=True) < to:
            to -= 1
            last = self._ends[to]
        begins, stops = self._there(first, at), self._there(last, to)
        return begins / RATE, max(begins, stops) / RATE

    def _part(self, sample: int, *, ends: bool = False) -> int:
        """The part that has a sample; what ends at a border of two parts is in the first."""
        find = bisect.bisect_left if ends else bisect.bisect
        return min(find(self._ends, sample), len(self._ends) - 1)

    def _there(self, at: int, part: int) -> int:
        """The sample of the whole sound that sample `at` is, in a part."""
        _, end = self._ranges[part]
        return end - (self._ends[part] - at)
