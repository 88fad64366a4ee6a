"""Claim: what decides about the text of a window of sound is Python's in libedgespec: the rules on
tokens, segments, repetition as zlib measures it, texts that are decoded again or left out, and
windows in which the draft runs."""

from __future__ import annotations

import itertools
import zlib
from ctypes import byref, c_double, c_int32, c_int64, c_size_t, c_void_p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.artifact.speech_format import write_speech_format
from edgespec.pair.window_drafting import WindowDrafting
from edgespec.speech.segments import segments_of
from edgespec.speech.speech_options import checked_options
from edgespec.speech.token_rules import TokenRules
from edgespec.speech.window_text import WindowText, is_silent, needs_another
from native_library import int64s
from native_transcripts import options_of
from tiny_speech import FIRST, LAST, SIZE, SPEECH

NUMBERS = np.random.default_rng(5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("speech")
    write_speech_format(SPEECH, found)
    return str(found).encode()


def texts():
    """Tokens that rules allow: texts with timestamps in pairs, cut off anywhere; and any others."""
    time = FIRST
    line = []
    for _ in range(12):
        words = NUMBERS.integers(0, SPEECH.end, NUMBERS.integers(1, 4)).tolist()
        end = min(time + int(NUMBERS.integers(1, 15)), LAST)
        line += [time, *words, end]
        time = end
    yield from (line[:length] for length in range(len(line)))
    for _ in range(40):
        yield NUMBERS.integers(0, SIZE, NUMBERS.integers(1, 6)).tolist()


def librarys_row(hooks, folder, logits, tokens, timestamps):
    row = logits.copy()
    hooks.edgespec_hook_token_rules(
        folder,
        row.ctypes.data_as(c_void_p),
        c_int64(SIZE),
        int64s(tokens),
        c_size_t(len(tokens)),
        c_int32(timestamps),
    )
    return row


@pytest.mark.parametrize("timestamps", [True, False])
def test_rows_are_ruled_as_pythons(hooks, folder, timestamps):
    preferred = 0
    for tokens in texts():
        for spread in (0.5, 6.0):
            logits = (NUMBERS.standard_normal(SIZE) * spread).astype(np.float32)
            expected = TokenRules(SPEECH, timestamps=timestamps)(logits, tokens)
            found = librarys_row(hooks, folder, logits, tokens, timestamps)
            assert np.array_equal(found, expected)
            preferred += np.isinf(expected[: SPEECH.end]).all()
    assert timestamps == (preferred > 20)


RULES = ["_order_timestamps", "_prefer_timestamp"]


@pytest.mark.parametrize("rule", RULES)
def test_a_missing_rule_is_found(hooks, folder, rule, monkeypatch):
    monkeypatch.setattr(TokenRules, rule, lambda *_: None)
    logits = NUMBERS.standard_normal(SIZE).astype(np.float32)
    rules = TokenRules(SPEECH)
    assert any(
        not np.array_equal(librarys_row(hooks, folder, logits, tokens, 1), rules(logits, tokens))
        for tokens in texts()
    )


def librarys_segments(hooks, folder, tokens, frames):
    found = int64s([0] * (3 * len(tokens) + 4))
    hooks.edgespec_hook_segments.restype = c_int64
    count = hooks.edgespec_hook_segments(
        folder, c_int64(SIZE), int64s(tokens), c_size_t(len(tokens)), c_int64(frames), found
    )
    return list(found[:count])


def test_segments_are_pythons(hooks, folder):
    several = 0
    for tokens, frames in itertools.product([[], *texts()], (200, 37)):
        expected = segments_of(tokens, SPEECH, frames)
        numbers = [(part.start, part.end, len(part.tokens)) for part in expected.segments]
        found = librarys_segments(hooks, folder, tokens, frames)
        assert found == [*itertools.chain(*numbers), expected.advance]
        several += len(numbers) > 1 and expected.advance < frames
    assert several > 5


def librarys_size(hooks, data):
    hooks.edgespec_hook_deflated_size.restype = c_int64
    return hooks.edgespec_hook_deflated_size(data, c_size_t(len(data)))


words = st.lists(
    st.sampled_from(["so", " ", "the end", "ab", "é", "ねこ", "thank you."]), max_size=400
)
KINDS = [
    st.binary(max_size=3000),
    words.map("".join).map(str.encode),
    st.text("ab", max_size=3000).map(str.encode),
    st.builds(lambda text, count: text * count, st.binary(max_size=300), st.integers(0, 100)),
]


@settings(max_examples=150, deadline=None)
@given(data=st.one_of(KINDS))
def test_a_text_is_as_small_as_zlib_makes_it(hooks, data):
    assert librarys_size(hooks, data) == len(zlib.compress(data))


def test_long_and_lopsided_texts_are_as_small_as_zlib_makes_them(hooks):
    """Codes of more bits than the format has, several blocks, and blocks that are stored."""
    lopsided = bytes(
        NUMBERS.permutation(np.repeat(np.arange(24), np.int64(1.6 ** np.arange(24)))).tolist()
    )
    noise = NUMBERS.integers(0, 256, 50_000, np.uint8).tobytes()
    mixed = b"".join(noise[at : at + 900] * 2 for at in range(0, 27_000, 900))
    for data in (lopsided[:60_000], noise, noise[:17_000], mixed, b"a" * 60_000, noise[:400] * 140):
        assert librarys_size(hooks, data) == len(zlib.compress(data))


def test_another_level_of_zlib_is_found(hooks):
    noise = NUMBERS.integers(0, 3, (40, 4000), np.uint8)
    for level in (1, 4, 5, 7, 9):
        assert any(
            librarys_size(hooks, line.tobytes()) != len(zlib.compress(line.tobytes(), level))
            for line in noise
        ), level


LIMITS = {
    "no_speech": (None, 0.0, 0.3, 0.6, 1.0),
    "min_logprob": (None, -2.0, -1.0, 0.0),
    "max_compression": (None, 0.0, 2.4, 9.0),
}


def test_texts_are_decoded_again_and_left_out_as_pythons(hooks):
    texts = [*itertools.product([-3.0, -1.0, -0.5, 0.0], [0.0, 2.4, 20.0], [0.0, 0.3, 0.7, 1.0])]
    decisions = set()
    for values in itertools.product(*LIMITS.values()):
        limits = dict(zip(LIMITS, values, strict=True))
        checked, options = checked_options(SPEECH, **limits), options_of(hooks, limits)
        for numbers in texts:
            text = WindowText([], 0.0, *numbers)
            found = hooks.edgespec_hook_window_text(*map(c_double, numbers), byref(options))
            expected = needs_another(text, checked) + 2 * is_silent(text, checked)
            assert found == expected, (limits, numbers)
            decisions.add(expected)
    assert decisions == {0, 1, 2, 3}


@pytest.mark.parametrize("gain", [0.5, 0.9, 1.1, 3.0])
def test_windows_draft_as_pythons(hooks, gain):
    count = 120
    plain = NUMBERS.uniform(0.5, 1.5, count)
    drafted = NUMBERS.uniform(0.5, 1.5, count) / gain
    tokens = NUMBERS.integers(0, 60, count)
    windows, expected = WindowDrafting(), []
    for i in range(count):
        drafts = windows.drafts()
        expected.append(int(drafts))
        windows.count(drafts, drafted[i] if drafts else plain[i], int(tokens[i]))
    found = (c_int32 * count)()
    times = [(c_double * count)(*numbers) for numbers in (plain, drafted)]
    hooks.edgespec_hook_window_drafting(*times, int64s(tokens.tolist()), c_int64(count), found)
    assert list(found) == expected
    assert 0 < sum(expected) < count
