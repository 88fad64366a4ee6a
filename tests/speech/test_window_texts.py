"""Claim: texts are decoded again, left out and continued by the rules of Whisper's own program.

Models and decoding are scripted: each window has a silence, a language and a text at every
temperature.
"""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.audio.sound import ArraySound
from edgespec.core.decode import Round
from edgespec.speech.speech_options import TEMPERATURES, checked_options
from edgespec.speech.transcribing import Transcriber
from edgespec.speech.transcript import Transcript
from edgespec.speech.window_text import WindowText, compression, is_silent, needs_another
from tiny_speech import SIZE, SPEECH

TWO = dataclasses.replace(SPEECH, languages={"en": 14, "de": 11})
NOISE = np.random.default_rng(0).normal(0, 0.1, 10 * 16000).astype(np.float32)
A, B = 1, 2  # tokens that are text


def whisper_decision(result, options):
    """`decode_with_fallback` and the skip of openai/whisper's transcribe.py, as they stand there.

    Returns whether another temperature is tried, and whether the window is skipped.
    """
    needs_fallback = False
    if options.max_compression is not None and result.compression > options.max_compression:
        needs_fallback = True  # too repetitive
    if options.min_logprob is not None and result.logprob < options.min_logprob:
        needs_fallback = True  # average log probability is too low
    if (
        options.no_speech is not None
        and result.silence > options.no_speech
        and options.min_logprob is not None
        and result.logprob < options.min_logprob
    ):
        needs_fallback = False  # silence
    should_skip = False
    if options.no_speech is not None:
        should_skip = result.silence > options.no_speech
        if options.min_logprob is not None and result.logprob > options.min_logprob:
            should_skip = False
    return needs_fallback, should_skip


limits = st.fixed_dictionaries(
    {
        "no_speech": st.none() | st.sampled_from([0.0, 0.3, 0.6, 1.0]),
        "min_logprob": st.none() | st.sampled_from([-2.0, -1.0, 0.0]),
        "max_compression": st.none() | st.sampled_from([0.0, 2.4, 9.0]),
    }
)
texts = st.builds(
    WindowText,
    st.just([]),
    st.sampled_from(TEMPERATURES),
    st.sampled_from([-3.0, -2.0, -1.5, -1.0, -0.5, 0.0]),
    st.sampled_from([0.0, 1.0, 2.4, 2.5, 20.0]),
    st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.7, 1.0]),
)


@given(texts, limits)
def test_a_text_is_decoded_again_and_left_out_as_by_whisper(text, options):
    checked = checked_options(SPEECH, **options)
    assert (needs_another(text, checked), is_silent(text, checked)) == whisper_decision(
        text, checked
    )


@pytest.mark.parametrize("text", ["", "a", "Straße " * 40, "\U0001f600"])
def test_compression_is_that_of_zlib(text):
    data = text.encode("utf-8")
    assert compression(text) == len(data) / len(zlib.compress(data))


class Windows:
    """A target and the decoding of texts, both by a script.

    Args:
        silences: of each window, with its language.
        texts: the tokens and the log-probability of each, of a window by its temperature.
    """

    vocab_size, capacity, length, valid_length, seconds = SIZE, 64, 0, 0, 0.0

    def __init__(self, silences, texts):
        self._silences, self._texts = silences, texts
        self.window, self.starts = -1, []

    def hear(self, log_mel):
        self.window += 1

    def prefill(self, prompt, assistant_spans=None):
        return prompt[-1]

    def score(self, tokens):
        silence, language = self._silences[self.window]
        row = np.full(SIZE, -60.0, np.float32)
        row[SPEECH.no_speech] = np.log(silence + 1e-9)
        row[TWO.languages[language]] = np.log(1 - silence + 1e-9)
        return row[None]

    def rounds(self, start):
        self.starts.append((self.window, start))
        tokens, logprob = self._texts[self.window][start.temperature]
        for token in [*tokens, SPEECH.end]:
            # Without timestamps two tokens may come: this one, and another that takes the rest.
            row = np.full(SIZE, -np.inf, np.float32)
            row[token], row[9] = logprob, np.log1p(-np.exp(logprob) + 1e-12)
            yield Round([token], 0, 0, 0, row[None])

    def transcribed(self, seconds, before=(), sound=None, **options):
        transcriber = Transcriber(
            self,
            None,
            speech=TWO,
            draft_speech=None,
            to_draft_ids=list,
            decode=lambda tokens: "".join(map(chr, (token + 96 for token in tokens))),
            rounds=self.rounds,
        )
        checked = checked_options(TWO, timestamps=False, **options)
        result = Transcript()
        samples = NOISE[: int(seconds * 16000)] if sound is None else sound
        segments = transcriber.segments(ArraySound(samples), checked, before, result)
        result.segments.extend(segments)
        return result


GOOD, POOR = ([A, B], -0.3), ([A], -3.0)
AGAIN = ([A] * 60, -0.1)


def test_a_poor_text_is_decoded_at_the_next_temperature_until_it_is_good():
    windows = Windows([(0, "en")] * 2, [{0.0: GOOD}, {0.0: POOR, 0.2: AGAIN, 0.4: GOOD}])
    found = windows.transcribed(4)
    assert [(s.text, s.temperature) for s in found.segments] == [("ab", 0.0), ("ab", 0.4)]
    assert [start.temperature for _, start in windows.starts] == [0.0, 0.0, 0.2, 0.4]
    emitted = [start.emitted for _, start in windows.starts]  # each draws other numbers
    assert emitted == [0, 3, 5, 66]
    assert found.segments[0].logprob == pytest.approx(-0.3, abs=1e-5)


def test_the_last_text_is_taken_if_none_is_good():
    windows = Windows([(0, "en")], [dict.fromkeys(TEMPERATURES, POOR)])
    (segment,) = windows.transcribed(2).segments
    assert (segment.text, segment.temperature) == ("a", 1.0)
    windows = Windows([(0, "en")], [{0.0: POOR}])
    assert windows.transcribed(2, temperature=0).segments[0].text == "a"


def test_silence_gives_nothing_and_is_decoded_once():
    windows = Windows([(0.9, "en")] * 2, [{0.0: POOR}, {0.0: GOOD}])
    found = windows.transcribed(4)
    assert [segment.text for segment in found.segments] == ["ab"]  # a probable text is believed
    assert len(windows.starts) == 2


def test_a_window_in_which_nothing_sounds_is_not_decoded():
    windows = Windows([(0, "en")], [{0.0: GOOD}])
    silence = np.zeros(2 * 32000, np.float32)
    sound = np.concatenate([silence, silence[:1600], NOISE[:30000]])
    found = windows.transcribed(2, sound=sound)
    assert [(s.start, s.text) for s in found.segments] == [(4.0, "ab")]
    assert len(windows.starts) == 1
    silent = Windows([], []).transcribed(2, sound=silence)
    assert (silent.segments, silent.seconds, silent.language) == ([], 4.0, None)


def test_the_language_is_that_of_the_first_window_with_speech():
    windows = Windows([(0.9, "en"), (0.1, "de"), (0.1, "en")], [{0.0: POOR}, {0.0: GOOD}] * 2)
    found = windows.transcribed(4, temperature=0)
    assert found.language == "de"
    assert found.language_probability == pytest.approx(1, abs=1e-6)
    assert [start.prompt[1] for _, start in windows.starts] == [14, 11]
    silent = Windows([(0.9, "en")], [{0.0: POOR}]).transcribed(2)
    assert (silent.language, silent.segments) == (None, [])
    given = Windows([(0.1, "en")], [{0.0: GOOD}]).transcribed(2, language="de")
    assert (given.language, given.language_probability) == ("de", None)


def previous_of(windows):
    """What each text began with, before its own prompt."""
    return [start.prompt[: start.prompt.index(SPEECH.start)] for _, start in windows.starts]


def test_what_was_said_is_continued_unless_it_was_drawn_too_freely():
    hot = dict.fromkeys(TEMPERATURES, POOR) | {0.6: GOOD}
    windows = Windows([(0, "en")] * 4, [{0.0: GOOD}, {0.0: GOOD}, hot, {0.0: GOOD}])
    windows.transcribed(8, before=[7], use_previous=True)
    said = previous_of(windows)
    assert said[:2] == [[17, 7], [17, 7, A, B]]
    assert said[2] == [17, 7, A, B, A, B]
    assert said[-1] == []  # after a text at 0.6


def test_a_prompt_is_said_before_the_first_window_only():
    windows = Windows([(0, "en")] * 2, [{0.0: GOOD}] * 2)
    windows.transcribed(4, before=[7, 8])
    assert previous_of(windows) == [[17, 7, 8], []]
