"""Sound with another number of samples per second, computed where it is read."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgespec.audio.sound import RATE, Samples, Sound

__all__ = ["Resampled", "resampled"]

# The low-pass filter: zero crossings on each side, the part of the band that it keeps, and the
# shape of its window (Kaiser): 80 dB less beyond the band.
CROSSINGS = 24
KEPT = 0.94
BETA = 8.0


def resampled(sound: Sound, rate: int = RATE) -> Sound:
    """The sound with `rate` samples per second."""
    return sound if sound.rate == rate else Resampled(sound, rate)


class Resampled:
    """A band-limited interpolation of another sound (Smith and Gossett 1984).

    Sample n is at position n · rate / new rate of the other sound: n · step / phases, a whole
    number and one of `phases` fractions, each of which has its own filter.
    """

    def __init__(self, sound: Sound, rate: int = RATE) -> None:
        common = math.gcd(sound.rate, rate)
        self._sound = sound
        self._phases, self._step = rate // common, sound.rate // common
        self._filters = _filters(self._phases, self._step)
        self.rate = rate
        self.length = -(-sound.length * self._phases // self._step)

    def read(self, start: int, count: int) -> Samples:
        """See `Sound.read`."""
        found = np.zeros(count, np.float32)
        taps = self._filters.shape[1]
        # From the first sample of a period on, so that each phase is every `phases`-th sample.
        begin = start - start % self._phases
        periods = -(-(start + count - begin) // self._phases)
        before = begin // self._phases * self._step - taps // 2 + 1
        samples = self._sound.read(before, periods * self._step + taps)
        windows = np.lib.stride_tricks.sliding_window_view(samples, taps)
        whole = np.empty((periods, self._phases), np.float32)
        for phase in range(self._phases):
            offset = phase * self._step // self._phases
            whole[:, phase] = windows[offset :: self._step][:periods] @ self._filters[phase]
        found[:] = whole.reshape(-1)[start - begin : start - begin + count]
        # Neither filter ringing before the sound nor after it.
        found[: max(0, -start)] = 0
        found[max(0, min(count, self.length - start)) :] = 0
        return found


def _filters(phases: int, step: int) -> npt.NDArray[np.float32]:
    """For each fraction the factors of the samples around it, [phases, taps]."""
    band = KEPT * min(1.0, phases / step)  # of the other sound's
    half = math.ceil(CROSSINGS / band)
    places = np.arange(-half + 1, half + 1)
    fractions = (np.arange(phases) * step % phases / phases)[:, None]
    distance = places - fractions
    window = np.i0(BETA * np.sqrt(np.maximum(0, 1 - (distance / half) ** 2))) / np.i0(BETA)
    filters = band * np.sinc(band * distance) * window
    return np.asarray(filters / filters.sum(axis=1, keepdims=True), np.float32)
