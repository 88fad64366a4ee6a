"""Claim: the rules on tokens are those of Whisper's decoder, for each row and what is before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.speech.segments import segments_of
from edgespec.speech.speech_model import RuledDraft
from edgespec.speech.token_rules import LATEST_START, TokenRules
from tiny_speech import FIRST, LAST, SIZE, SPEECH

rows = st.integers(0, 2**32).map(
    lambda seed: np.random.default_rng(seed).normal(0, 3, SIZE).astype(np.float32)
)


def allowed_texts(seed, length):
    """A text that the rules allow, drawn token by token."""
    generator = np.random.default_rng(seed)
    rules, text = TokenRules(SPEECH), []
    while len(text) < length and 12 not in text:
        row = rules(generator.normal(0, 3, SIZE).astype(np.float32), text)
        weights = np.exp(row - row.max())
        text.append(int(generator.choice(SIZE, p=weights / weights.sum())))
    return text


histories = st.builds(allowed_texts, st.integers(0, 2**32), st.integers(0, 12))


@given(rows, histories)
def test_rows_are_those_of_transformers(row, text):
    torch = pytest.importorskip("torch")
    logits_process = pytest.importorskip("transformers.generation.logits_process")
    from transformers import GenerationConfig

    config = GenerationConfig(eos_token_id=12, no_timestamps_token_id=19)
    config.max_initial_timestamp_index = LATEST_START
    expected = torch.tensor(row[None])
    ids = torch.tensor([[13, *text]])
    for process in (
        logits_process.SuppressTokensAtBeginLogitsProcessor([5, 12], 1, device="cpu"),
        logits_process.SuppressTokensLogitsProcessor([3, 13], device="cpu"),
        logits_process.WhisperTimeStampLogitsProcessor(config, begin_index=1),
    ):
        expected = process(ids, expected)
    assert np.array_equal(TokenRules(SPEECH)(row, text), expected[0].numpy())


@given(rows, histories)
def test_something_may_always_come_and_the_row_itself_stays(row, text):
    before = row.copy()
    assert np.isfinite(TokenRules(SPEECH)(row, text)).any()
    assert np.array_equal(row, before)


@given(st.integers(0, 2**32))
def test_timestamps_come_in_pairs_and_do_not_go_back(seed):
    text = allowed_texts(seed, 40)
    times = [token for token in text if token >= FIRST]
    assert times == sorted(times)
    assert FIRST <= text[0] <= FIRST + LATEST_START
    for before, token, after in zip(text, text[1:], text[2:], strict=False):
        if before >= FIRST and token >= FIRST:
            assert after < FIRST  # a segment begins with its text


def test_without_timestamps_none_may_come():
    row = TokenRules(SPEECH, timestamps=False)(np.zeros(SIZE, np.float32), [7])
    assert np.flatnonzero(row == -np.inf).tolist() == [3, 13, *range(FIRST, LAST + 1)]


# --- segments ---


def at(seconds):
    return FIRST + round(seconds * 50)


def test_a_text_is_split_where_two_timestamps_meet():
    text = [at(0), 1, 2, at(0.5), at(0.6), 4, at(1.1), at(1.1), 6]
    found = segments_of(text, SPEECH, 200)
    assert [(part.start, part.end) for part in found.segments] == [(0, 50), (60, 110)]
    assert [part.tokens for part in found.segments] == [tuple(text[:4]), tuple(text[4:7])]
    assert found.advance == 110  # the last one is cut off, and comes again


def test_after_a_single_last_timestamp_the_window_is_silent():
    found = segments_of([at(0), 1, at(0.5), at(0.5), 4, at(1.1)], SPEECH, 200)
    assert [(part.start, part.end) for part in found.segments] == [(0, 50), (50, 110)]
    assert found.advance == 200


def test_a_text_without_borders_is_one_segment():
    assert segments_of([at(0), 1, 2], SPEECH, 180).segments[0].end == 180
    assert segments_of([at(0), 1, at(0.8)], SPEECH, 180).segments[0].end == 80
    assert segments_of([1, 2], SPEECH, 180).advance == 180
    assert segments_of([], SPEECH, 180).segments == []


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_every_window_advances_and_no_segment_leaves_it(seed, frames):
    text = [token for token in allowed_texts(seed, 30) if token != 12]
    found = segments_of(text, SPEECH, frames)
    assert 0 < found.advance <= max(frames, 2)
    assert all(0 <= part.start <= part.end <= frames for part in found.segments)


# --- a draft that keeps to the rules ---


class Rows:
    """A model whose row depends on the tokens before it."""

    vocab_size, capacity, valid_length, seconds = SIZE, 64, 0, 0.0

    def __init__(self):
        self.read = []

    @property
    def length(self):
        return len(self.read)

    def prefill(self, prompt, assistant_spans=None):
        self.read = list(prompt[:-1])
        return prompt[-1]

    def score(self, tokens):
        scored = []
        for token in tokens:
            self.read.append(token)
            generator = np.random.default_rng(self.read)
            scored.append(generator.normal(0, 3, SIZE).astype(np.float32))
        return np.array(scored)

    def rewind(self, length):
        del self.read[length:]


def test_a_draft_reads_its_own_prompt_and_keeps_to_the_rules_however_it_is_called():
    own = [17, 13]
    rules, model = TokenRules(SPEECH), Rows()
    draft = RuledDraft(model, rules, own)
    text = [at(0), 1, 2, at(0.4), at(0.4), 6, 7, 8]
    model.prefill([*own[:-1], own[-1]])
    plain = model.score([own[-1], *text])
    expected = [rules(row, text[:index]) for index, row in enumerate(plain)]
    for calls in ([9], [1] * 9, [3, 2, 4]):
        assert draft.prefill([99, 98, 15]) == 13  # the target's prompt
        start, found, done = draft.length, [], 0
        for count in calls:
            tokens = [15, *text][done : done + count]
            draft.score([*tokens, 1, 2])  # what is drafted after them and rejected
            draft.rewind(start + done)
            found += [*draft.score(tokens)]
            done += count
        assert np.array_equal(found, expected)
