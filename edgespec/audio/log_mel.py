"""Log-mel spectrograms of sound, as Whisper reads them (Radford et al. 2022, section 2.2)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from edgespec.audio.sound import RATE, Sound

__all__ = ["FRAMES_PER_SECOND", "HOP", "Spectrogram", "SpectrogramWindow", "mel_filters"]

WINDOW = 400  # samples that a frame sees: 25 ms
HOP = 160  # samples from frame to frame: 10 ms
FRAMES_PER_SECOND = RATE // HOP
FLOOR = 1e-10  # of a band's power
RANGE = 8.0  # powers of ten below the loudest that are kept
AT_ONCE = 3000  # frames

SpectrogramWindow: TypeAlias = npt.NDArray[np.float32]  # [mel bins, frames]


class Spectrogram:
    """The log-mel spectrogram of a whole sound, computed window by window.

    Its values are relative to the loudest of the whole sound, which is therefore read twice.

    Attributes:
        frames: of the sound, each of 10 ms.

    Args:
        sound: with `RATE` samples per second.
    """

    def __init__(self, sound: Sound, mel_bins: int) -> None:
        assert sound.rate == RATE, "speech models read one rate"
        self._sound = sound
        self._filters = mel_filters(mel_bins)
        self._hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
        self.frames = sound.length // HOP
        starts = range(0, self.frames, AT_ONCE)
        self._loudest = max(
            (float(self._powers(start, self._count(start, AT_ONCE)).max()) for start in starts),
            default=0.0,
        )

    def window(self, start: int, count: int) -> SpectrogramWindow:
        """Frames start … start + count - 1; 0 after the sound, as the models were trained."""
        found = np.zeros((len(self._filters), count), np.float32)
        there = self._count(start, count)
        if there:
            powers = np.maximum(self._powers(start, there), self._loudest - RANGE)
            found[:, :there] = (powers + 4) / 4
        return found

    def _count(self, start: int, count: int) -> int:
        """How many of these frames the sound has."""
        return max(0, min(count, self.frames - start))

    def _powers(self, start: int, count: int) -> npt.NDArray[np.float64]:
        """log₁₀ of the power in each band, [mel bins, count]."""
        half = WINDOW // 2
        first = start * HOP - half
        samples = self._sound.read(first, (count - 1) * HOP + WINDOW).astype(np.float64)
        if first < 0:  # the beginning is mirrored
            samples[:-first] = self._sound.read(1, -first)[::-1]
        frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP]
        spectrum = np.fft.rfft(frames * self._hann)
        power = spectrum.real**2 + spectrum.imag**2
        return np.log10(np.maximum(self._filters @ power.T, FLOOR))


def mel_filters(mel_bins: int) -> npt.NDArray[np.float64]:
    """Triangles of equal area on Slaney's mel scale (Auditory Toolbox, 1998), [mel bins, bins].

    A row has the factors of the power at the frequencies of a frame's spectrum, 0 to 8 kHz.
    """
    edges = _hertz(np.linspace(0, _mels(RATE / 2), mel_bins + 2))
    frequencies = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return np.asarray(triangles * (2 / (edges[2:] - edges[:-2]))[:, None])


# The scale is linear up to 1 kHz, 15 mels, then logarithmic.
LINEAR = 200 / 3  # Hz per mel
LOGARITHMIC_FROM, FACTOR = 1000.0, np.log(6.4) / 27


def _mels(hertz: float) -> float:
    return float(LOGARITHMIC_FROM / LINEAR + np.log(hertz / LOGARITHMIC_FROM) / FACTOR)


def _hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    above = LOGARITHMIC_FROM * np.exp(FACTOR * (mels - LOGARITHMIC_FROM / LINEAR))
    return np.where(mels < LOGARITHMIC_FROM / LINEAR, LINEAR * mels, above)
