"""Claim: parts with voices are those of Silero's own program, and times are those of the whole."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.audio.sound import RATE, ArraySound
from edgespec.errors import EdgespecError, UsageError
from edgespec.speech.voices import FRAME, SpokenSound, VoiceOptions, spoken_ranges
from edgespec_runtimes.ort.voice_model import VoiceModel

# Runs of probabilities: pauses of all lengths around `min_silence`.
runs = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.34, 0.36, 0.49, 0.5, 0.9]), st.integers(1, 90)),
    max_size=12,
)


@given(runs, st.integers(0, FRAME - 1), st.sampled_from([0.1, 0.5]), st.sampled_from([0.1, 2.0]))
def test_parts_are_those_of_silero(runs, missing, threshold, min_silence):
    silero = pytest.importorskip("silero_vad.utils_vad")
    probabilities = [value for value, count in runs for _ in range(count)]
    length = max(0, len(probabilities) * FRAME - missing)
    expected = silero.get_speech_timestamps_from_probs(
        probabilities,
        sampling_rate=RATE,
        threshold=threshold,
        min_speech_duration_ms=0,
        min_silence_duration_ms=round(1000 * min_silence),
        speech_pad_ms=400,
        audio_length_samples=length,
    )
    options = VoiceOptions(threshold, min_silence)
    found = spoken_ranges(probabilities, length, options)
    assert found == [(part["start"], part["end"]) for part in expected]


def chirps(seconds):
    times = np.arange(round(seconds * RATE)) / RATE
    syllables = np.maximum(0, np.sin(2 * np.pi * 3 * times))
    tones = sum(np.sin(2 * np.pi * 120 * k * times + np.sin(9 * times)) / k for k in range(1, 20))
    return (0.1 * syllables * tones).astype(np.float32)


def test_probabilities_are_those_of_silero():
    sequence = pytest.importorskip("silero_vad.sequence_vad")
    (folder,) = importlib.util.find_spec("silero_vad").submodule_search_locations
    reference = sequence.SileroVADSequence(f"{folder}/data/silero_vad_16k_sequence.onnx")
    sound = np.concatenate([np.zeros(9000, np.float32), chirps(20.3), np.zeros(700, np.float32)])
    expected = reference.audio_forward(sound)
    found = list(VoiceModel().probabilities(ArraySound(sound)))
    assert found == pytest.approx(expected.tolist(), abs=1e-5)
    assert len(found) == -(-len(sound) // FRAME)
    assert max(found) > min(found) + 0.01


ranges = st.lists(st.integers(0, 400), min_size=2, max_size=10, unique=True).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(ranges, st.integers(-30, 400), st.integers(0, 500))
def test_spoken_sound_is_the_parts_one_after_the_other(ranges, start, count):
    whole = (np.arange(1, 401) / 400).astype(np.float32)
    parts = np.concatenate([whole[first:last] for first, last in ranges])
    spoken = SpokenSound(ArraySound(whole), ranges)
    assert spoken.length == len(parts)
    padded = np.concatenate([np.zeros(30), parts, np.zeros(1000)])
    assert np.array_equal(spoken.read(start, count), padded[start + 30 :][:count])


def test_times_are_those_of_the_whole_sound():
    spoken = SpokenSound(
        ArraySound(np.zeros(100 * RATE)), [(RATE, 3 * RATE), (9 * RATE, 12 * RATE)]
    )
    assert [spoken.original(start, 5)[0] for start in (0, 1.5, 2, 4)] == [1, 2.5, 9, 11]
    assert [spoken.original(0, end)[1] for end in (1, 2, 2.5, 5)] == [2, 3, 9.5, 12]
    assert spoken.original(1, 2.3, padding=0.4) == (2, 3)  # 0.3 s of the next part are silence
    assert spoken.original(1.7, 4, padding=0.4) == (9, 11)
    assert spoken.original(1.9, 2.1, padding=0.4) == (9, 9.1)
    assert spoken.original(2, 2, padding=0.4) == (9, 9)


@pytest.mark.parametrize("options", [{"threshold": 2}, {"min_silence": -1}, {"padding": "x"}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        VoiceOptions(**options)


def test_without_the_package_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("edgespec_runtimes.ort.voice_model.find_spec", lambda name: None)
    with pytest.raises(EdgespecError, match="pip install --no-deps 'silero-vad"):
        VoiceModel()
