"""Claim: words are groups of a text's tokens, and their times the cheapest path through the
attention of heads that follow the sound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.speech import word_times
from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.word_times import WordTimer, path_starts, token_starts, within
from edgespec.speech.words import Word, words_of
from whisper_checkpoints import whisper_tokenizer

TOKENIZER = whisper_tokenizer()  # a token a byte


def decode(tokens):
    return TOKENIZER.decode(list(tokens))


def tokens_of(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def words(text, language="en"):
    return [word.text for word in words_of(tokens_of(text), decode, language)]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([" It", "'s", " la", "te", "."], [" It's", " late."]),
        (["Hello", ",", " world", "!"], ["Hello,", " world!"]),
        ([" said", ' "', "no", '"', " (", "twice", ")."], [" said", ' "no"', " (twice)."]),
        ([" $", "5", " --", " well", "-", "known", "..."], [" $5", " --", " well", "-known..."]),
        ([" ¿", "Qu", b"\xc3", b"\xa9", "?"], [" ¿Qué?"]),
        ([b" \xf0\x9f", b"\x99", b"\x82", " ok"], [" 🙂", " ok"]),
        ([" ends", " ("], [" ends", " ("]),
        ([], []),
    ],
)
def test_words_begin_with_spaces_and_have_the_marks_at_them(pieces, expected):
    spelled = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]

    def joined(tokens):
        return b"".join(spelled[token] for token in tokens).decode(errors="replace")

    assert [word.text for word in words_of(range(len(pieces)), joined, "en")] == expected


@pytest.mark.parametrize("language", ["zh", "ja", "th", "yue"])
def test_words_of_languages_without_spaces_are_characters(language):
    assert words("你好，世界。", language) == ["你", "好，", "世", "界。"]
    assert words("你好，世界。", "en") == ["你好，世界。"]


@settings(max_examples=40)
@given(st.text(max_size=12), st.sampled_from(["en", "zh"]))
def test_words_have_all_tokens_of_a_text_and_are_its_text(text, language):
    tokens = tokens_of(text)
    found = words_of(tokens, decode, language)
    assert sum(word.tokens for word in found) == len(tokens)
    assert all(word.tokens > 0 for word in found)
    assert "".join(word.text for word in found) == text


@settings(max_examples=40)
@given(st.lists(st.integers(0, 255), max_size=12))
def test_bytes_that_are_no_text_have_words_as_well(tokens):
    found = words_of(tokens, decode, "en")
    assert sum(word.tokens for word in found) == len(tokens)


# --- times ---


def every_path(rows, columns):
    """All paths through a matrix, as where each enters and leaves each row."""
    for ends in itertools.product(range(columns), repeat=rows - 1):
        ends = (*ends, columns - 1)
        for stays in itertools.product((0, 1), repeat=rows - 1):
            # A path enters a row below where it left the last one, or a column later.
            starts = (0, *(end + (not stay) for end, stay in zip(ends, stays, strict=False)))
            if all(start <= end for start, end in zip(starts, ends, strict=True)):
                yield starts, ends


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (4, 1), (2, 5), (3, 4), (4, 4)])
def test_the_path_is_the_cheapest_of_all(rows, columns):
    generator = np.random.default_rng(rows * 10 + columns)
    for _ in range(10):
        costs = generator.normal(size=(rows, columns))
        paths = [*every_path(rows, columns)]
        totals = [
            sum(row[start : end + 1].sum() for row, start, end in zip(costs, *path, strict=True))
            for path in paths
        ]
        starts, _ = paths[int(np.argmin(totals))]
        assert path_starts(costs).tolist() == list(starts)


def scripted(starts, steps, heads=2):
    """Shares of tokens that look at the sound from their start to the next one's."""
    shares = np.full((heads, len(starts), steps), 0.001, np.float32)
    for row, (start, end) in enumerate(itertools.pairwise([*starts, steps])):
        shares[:, row, start:end] = 0.5
    return shares


def test_tokens_begin_where_their_heads_look():
    starts = [0, 12, 25, 40, 61]
    assert token_starts(scripted(starts, 80)).tolist() == starts
    noisy = scripted(starts, 80)
    noisy[:, 1, 70] = noisy[:, 3, 5] = 0.9  # single positions, which the median leaves out
    assert token_starts(noisy).tolist() == starts


@pytest.mark.parametrize(
    "shares",
    [np.zeros((1, 3, 9)), np.ones((2, 1, 50)), np.full((1, 4, 1), 0.5), np.ones((1, 500, 3))],
    ids=["none", "one token", "one position", "more tokens than positions"],
)
def test_shares_that_say_nothing_have_times_all_the_same(shares):
    starts = token_starts(shares.astype(np.float32))
    assert len(starts) == shares.shape[1]
    assert (np.diff(starts) >= 0).all()
    assert starts[0] == 0
    assert starts[-1] < shares.shape[2]


SAID = [" Good", " day,", " you."]
PROMPT = [257, 258, 262, 266]
STARTS = [10, 30, 55, 80]  # of the words, and of what follows them


def times(language="en", alignment=None):
    """The words of two segments, of a window that begins at 30 s; each looks at its own part."""
    segments = [tokens_of("".join(SAID[:2])), [], tokens_of(SAID[2])]

    def looked_at(tokens):
        assert tokens[:4] == PROMPT
        borders = [0, *np.cumsum([len(word) for word in SAID])]
        starts = np.interp(np.arange(len(tokens) - 3), borders, STARTS).astype(int)
        starts[0] = 0
        shares = scripted([*starts], 100)
        # Nothing is looked at for the tokens before the last one of the prompt.
        return np.concatenate([np.ones((2, 3, 100), np.float32), shares], axis=1)

    timer = WordTimer(alignment or looked_at, decode)
    return [*timer.words(segments, PROMPT, steps=100, begins=30.0, language=language)]


def test_a_word_lasts_from_its_first_token_to_the_next_word():
    assert times() == [
        (Word(30.0, 30.6, "Good"), Word(30.6, 31.1, "day,")),
        (),
        (Word(31.1, 31.6, "you."),),
    ]


def test_the_silence_around_a_segment_is_in_none_of_its_words():
    words = [Word(0.0, 9.0, "Good"), Word(9.0, 9.4, "day"), Word(9.4, 14.0, "now.")]
    trimmed = (Word(8.6, 9.0, "Good"), words[1], Word(9.4, 9.9, "now."))
    assert within(words, 8.6, 9.9) == trimmed
    assert within(words[:1], 8.6, 8.9) == (Word(8.6, 8.9, "Good"),)
    # A segment that is somewhere else says nothing about its words.
    assert within(words, 20.0, 25.0) == within(words, 0.0, 14.0) == tuple(words)
    assert within([], 0.0, 1.0) == ()


def test_a_window_without_text_is_not_looked_at():
    timer = WordTimer(lambda tokens: 1 / 0, decode)
    assert [*timer.words([[], []], PROMPT, steps=9, begins=0.0, language="en")] == [(), ()]


@pytest.mark.parametrize("mutant", ["no median", "one head", "no comparison of tokens"])
def test_another_method_has_other_times(mutant, monkeypatch):
    shares = np.random.default_rng(3).random((3, 9, 60)).astype(np.float32) ** 4
    usual = token_starts(shares).tolist()
    if mutant == "no median":
        monkeypatch.setattr(word_times, "SMOOTHED", 1)
    elif mutant == "one head":
        shares = shares[1:2]
    else:
        smoothed = [word_times._smoothed(head) for head in shares]
        assert path_starts(-np.mean(smoothed, axis=0, dtype=np.float64)).tolist() != usual
        return
    assert token_starts(shares).tolist() != usual


def test_subtitles_and_tables_have_a_line_a_word():
    said = (Word(0.0, 0.5, "Good"), Word(0.5, 1.25, "day."))
    transcript = Transcript([Segment(0.0, 2.0, "Good day.", (1,), words=said)])
    assert transcript.words == list(said)
    assert transcript.text == "Good day."
    assert transcript.srt() == (
        "1\n00:00:00,000 --> 00:00:00,500\nGood\n\n2\n00:00:00,500 --> 00:00:01,250\nday.\n"
    )
    assert transcript.vtt().count("-->") == 2
    assert transcript.tsv() == "start\tend\ttext\n0\t500\tGood\n500\t1250\tday.\n"
    (segment,) = transcript.to_dict()["segments"]
    assert segment["words"][1] == {"start": 0.5, "end": 1.25, "text": "day."}
