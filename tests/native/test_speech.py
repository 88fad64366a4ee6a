"""Claim: libedgespec transcribes sounds as Python does: the same segments, times, tokens and
log-probabilities with every option, whatever drafts.

Random Whispers whose windows are 2 s; sounds of several windows.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

import edgespec
from depth import by_turns
from edgespec.speech import transcribing
from edgespec.speech.token_rules import TokenRules
from edgespec.speech.transcribing import Transcriber
from native_library import NativeModel
from native_transcripts import NativeTranscript, transcribed

GREEDY = {"temperature": 0.0}
SAMPLED = {"temperature": 0.8, "seed": 4}
# Of these random texts, some are too improbable, some repeat themselves too much, some are good.
FALLBACKS = {"temperature": (0.0, 0.4, 1.0), "min_logprob": -2.6, "max_compression": 4.5}
DRAFTS = (
    {"draft": False},
    {"draft": "model", "gamma": 3},
    {"draft": "lookup", "gamma": 4},
    {"draft": "both", "gamma": 2},
)
WAYS = (
    GREEDY,
    SAMPLED,
    FALLBACKS,
    {**FALLBACKS, "seed": 2**40 + 1, "use_previous": True},
    {**GREEDY, "language": "de", "task": "translate"},
    {**GREEDY, "use_previous": True, "prompt": "  Names, 名前 \x1f"},
    {**GREEDY, "timestamps": False, "no_speech": None},
    {**GREEDY, "no_speech": 0.0},
    {**GREEDY, "no_speech": 0.0, "min_logprob": -9.0},
    {**GREEDY, "no_speech": 0.0, "min_logprob": None},
    {"temperature": (0.0, 1.0), "max_compression": None, "min_logprob": -3.0},
)


def sounds():
    """Chirps in noise, of several windows each; one has windows in which nothing sounds."""
    generator = np.random.default_rng(1)
    for seconds in (5.3, 1.2):
        times = np.arange(round(seconds * 16000)) / 16000
        chirp = np.sin(2 * np.pi * (300 + 700 * np.sin(times * generator.uniform(1, 9))) * times)
        yield (0.3 * chirp + 0.05 * generator.standard_normal(len(times))).astype(np.float32)
    noise = 0.1 * generator.standard_normal(3 * 16000)
    yield np.concatenate([np.zeros(70_000), noise, np.zeros(50_000), noise]).astype(np.float32)


SOUNDS = list(sounds())


@pytest.fixture(scope="module")
def pair(whisper_folder):
    return edgespec.load(whisper_folder, threads=1)


@pytest.fixture(scope="module")
def model(built, whisper_folder):
    return NativeModel(whisper_folder, threads=1)


def numbers_of(transcript):
    found = [transcript.language_probability or 0]
    for one in transcript.segments:
        found += [one.logprob, one.compression, one.no_speech]
    return found


def are_same(found, expected):
    """Segments to the bit, but for numbers that a last bit of a spectrogram changes."""
    shown = [
        ([astuple(segment)[:5] for segment in one.segments], one.language, one.seconds)
        for one in (found, expected)
    ]
    return shown[0] == shown[1] and numbers_of(found) == pytest.approx(
        numbers_of(expected), abs=1e-5
    )


def differs(model, pair, **given):
    return any(
        not are_same(transcribed(model, sound, **given), pair.transcribe(sound, **given))
        for sound in SOUNDS
    )


@pytest.mark.parametrize("turn", range(len(DRAFTS)), ids=lambda turn: str(DRAFTS[turn]["draft"]))
def test_transcripts_are_pythons(model, pair, turn):
    segments = accepted = 0
    drafting = DRAFTS[turn]
    for given in by_turns(WAYS, turn, len(DRAFTS)):
        for sound in SOUNDS:
            expected = pair.transcribe(sound, **drafting, **given)
            found = transcribed(model, sound, **drafting, **given)
            assert are_same(found, expected), given
            counts, stats = (found.calls, found.drafted, found.accepted), expected.stats
            assert counts == (stats.target_calls, stats.drafted, stats.accepted), given
            segments += len(found.segments)
            accepted += found.accepted
    assert segments > 10
    assert (accepted > 10) == (drafting["draft"] is not False)


def test_defaults_and_drafting_by_the_clock_change_no_text(model, pair):
    """One session, whose windows draft as was faster."""
    session = model.session()
    for given in ({}, {"draft": "both", "temperature": 0.3}):
        for sound in SOUNDS[1:]:
            found = NativeTranscript(session, sound, **given).finish()
            assert are_same(found, pair.transcribe(sound, **{**given, "draft": False}))


def windows_begin_a_frame_later(monkeypatch):
    segments_of = transcribing.segments_of

    def later(*arguments):
        found = segments_of(*arguments)
        return type(found)(found.segments, found.advance + 1)

    monkeypatch.setattr(transcribing, "segments_of", later)


def timestamps_are_not_preferred(monkeypatch):
    monkeypatch.setattr(TokenRules, "_prefer_timestamp", lambda self, logits: None)


def timestamps_may_go_back(monkeypatch):
    monkeypatch.setattr(TokenRules, "_order_timestamps", lambda self, logits, generated: None)


def tokens_are_not_suppressed(monkeypatch):
    call = TokenRules.__call__

    def allowing(self, logits, generated):
        self._never = self._never[-1:]
        return call(self, logits, generated)

    monkeypatch.setattr(TokenRules, "__call__", allowing)


def texts_share_noise(monkeypatch):
    text = Transcriber._text

    def first(self, *arguments):
        self._emitted = 0
        return text(self, *arguments)

    monkeypatch.setattr(Transcriber, "_text", first)


def more_is_said_before(monkeypatch):
    prompt = transcribing._prompt
    monkeypatch.setattr(transcribing, "_prompt", lambda *given: prompt(*given[:4], given[4] + 20))


def temperatures_are_not_tried(monkeypatch):
    monkeypatch.setattr(transcribing, "needs_another", lambda text, options: False)


def silence_is_believed(monkeypatch):
    monkeypatch.setattr(transcribing, "is_silent", lambda text, options: False)


def the_end_does_not_count(monkeypatch):
    text = Transcriber._text

    def without(self, *arguments):
        found = text(self, *arguments)
        count = len(found.tokens)
        return type(found)(
            found.tokens,
            found.temperature,
            found.logprob * (count + 1) / max(count, 1),
            found.compression,
            found.silence,
        )

    monkeypatch.setattr(Transcriber, "_text", without)


MISTAKES = {
    windows_begin_a_frame_later: GREEDY,
    timestamps_are_not_preferred: GREEDY,
    timestamps_may_go_back: GREEDY,
    tokens_are_not_suppressed: GREEDY,
    texts_share_noise: {**SAMPLED, "no_speech": None},
    more_is_said_before: {**GREEDY, "use_previous": True},
    temperatures_are_not_tried: FALLBACKS,
    silence_is_believed: {**GREEDY, "no_speech": 0.0},
    the_end_does_not_count: GREEDY,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(model, pair, mistake, monkeypatch):
    given = {"draft": False, **MISTAKES[mistake]}
    assert not differs(model, pair, **given)
    mistake(monkeypatch)
    assert differs(model, pair, **given)
