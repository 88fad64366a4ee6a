"""Claim: libedgespec's spectrograms are Python's, but for a last bit here and there.

Both compute in double precision and round to float32. numpy and BLAS add up in another order, so a
number that lies between two of float32's may be rounded to the other one.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgespec.audio import log_mel
from edgespec.audio.log_mel import Spectrogram
from edgespec.audio.sound import ArraySound

LOUDNESS = np.float32([1, 1e-3])
MOST_OTHERS = 1e-4  # of the numbers: none, or one of some hundred thousand


def sound(seconds, noise=0.01):
    times = np.arange(round(seconds * 16000)) / 16000
    chirp = np.sin(2 * np.pi * (300 + 700 * np.sin(3 * times)) * times)
    silence = np.random.default_rng(1).standard_normal(len(times))
    return (0.3 * chirp * ((times + 0.5) % 1 > 0.4) + noise * silence).astype(np.float32)


def librarys(hooks, samples, mel_bins, start, count):
    found = np.empty((mel_bins, count), np.float32)
    numbers = [ctypes.c_int64(number) for number in (mel_bins, start, count)]
    data, into = samples.ctypes, found.ctypes
    hooks.edgespec_hook_log_mel(
        data.data_as(ctypes.c_void_p),
        ctypes.c_size_t(len(samples)),
        *numbers,
        into.data_as(ctypes.c_void_p),
    )
    return found


def difference(hooks, samples, mel_bins, start, count):
    """The share of numbers that differ, and by how many steps of float32 at most."""
    found = librarys(hooks, samples, mel_bins, start, count)
    expected = Spectrogram(ArraySound(samples), mel_bins).window(start, count)
    steps = np.abs(found.view(np.int32).astype(np.int64) - expected.view(np.int32))
    return np.mean(steps > 0), steps.max()


@pytest.mark.parametrize(("mel_bins", "frames"), [(80, 3000), (128, 1000), (12, 200)])
@pytest.mark.parametrize("seconds", [0.01, 0.02, 0.5, 4.003])
def test_spectrograms_are_pythons(hooks, seconds, mel_bins, frames):
    others = []
    for start in (0, 200):
        for noise in (0, 1e-3, 0.1):
            share, steps = difference(hooks, sound(seconds, noise), mel_bins, start, frames)
            assert share == 0 or steps == 1
            others.append(share)
    assert np.mean(others) <= MOST_OTHERS


def test_silence_is_pythons(hooks):
    for samples in (np.zeros(16000, np.float32), np.full(4000, 1e-9, np.float32)):
        assert difference(hooks, samples, 12, 0, 200) == (0, 0)


def hops_are_a_sample_longer(monkeypatch):
    monkeypatch.setattr(log_mel, "HOP", 161)


def the_beginning_is_not_mirrored(monkeypatch):
    read = ArraySound.read

    def silent_before(self, start, count):
        return read(self, start, count) * (start != 1)

    monkeypatch.setattr(ArraySound, "read", silent_before)


def quiet_frames_are_kept(monkeypatch):
    monkeypatch.setattr(log_mel, "RANGE", 9.0)


def the_floor_is_higher(monkeypatch):
    monkeypatch.setattr(log_mel, "FLOOR", 1e-8)


def filters_have_equal_heights(monkeypatch):
    filters = log_mel.mel_filters
    monkeypatch.setattr(
        log_mel, "mel_filters", lambda bins: filters(bins) / filters(bins).max(1, keepdims=True)
    )


MISTAKES = [
    hops_are_a_sample_longer,
    the_beginning_is_not_mirrored,
    quiet_frames_are_kept,
    the_floor_is_higher,
    filters_have_equal_heights,
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_another_spectrogram_is_found(hooks, mistake, monkeypatch):
    mistake(monkeypatch)
    samples = np.concatenate([sound(1.0, 1e-4), np.zeros(4000, np.float32), sound(0.3, 1e-6)])
    shares = [difference(hooks, samples * loud, 12, 0, 200)[0] for loud in LOUDNESS]
    assert max(shares) > 10 * MOST_OTHERS
