"""Claim: lookup finds what a search of the whole text would find, in bounded memory.

The automaton and the sorted texts are compared with brute force on random texts; what is proposed
follows from counts alone.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.core.randomness import Seeded
from edgespec.drafters.matcher import Continuation
from edgespec.drafters.suffix_array import DEPTH, SAMPLED, SuffixArray
from edgespec.drafters.suffix_automaton import COUNTED, READ, WIDEST, Follower, SuffixAutomaton
from edgespec.drafters.suffix_lookup import SuffixLookup, chance

TEXTS = st.lists(st.integers(0, 3), max_size=COUNTED)
MANY = 1000


def automaton(tokens, most=MANY) -> SuffixAutomaton:
    made = SuffixAutomaton(most)
    made.read(tokens)
    return made


def ends(part, text) -> list[int]:
    """Where a part of a text ends."""
    return [end for end in range(len(part), len(text) + 1) if text[end - len(part) : end] == part]


def followers(part, text) -> Counter[int]:
    return Counter(text[end] for end in ends(part, text) if end < len(text))


def classes(suffixes, text) -> list[tuple[int, Counter[int]]]:
    """The suffixes that occur in a text, one for each set of ends, the longest first."""
    found: dict[tuple[int, ...], int] = {}
    for part in suffixes:
        at = tuple(ends(part, text))
        if at:
            found.setdefault(at, len(part))
    by_length = {len(part): part for part in suffixes}
    return [(length, followers(by_length[length], text)) for length in found.values()]


def suffixes_of(text) -> list[list[int]]:
    return [text[start:] for start in range(len(text))]


# --- a text in itself ----------------------------------------------------------------------------


@given(TEXTS)
def test_repeated_suffixes_and_what_followed_them_are_those_of_a_search(text):
    matcher = automaton(text)
    repeated = [part for part in suffixes_of(text) if len(ends(part, text)) > 1]
    expected = classes(repeated, text)
    assert [length for length, _ in matcher.suffixes()] == [length for length, _ in expected]
    for (_, state), (_, after) in zip(matcher.suffixes(), expected, strict=True):
        best = matcher.best(state)
        assert best is not None
        assert best.total == after.total()
        assert best.times == after[best.token] == max(after.values())


@given(TEXTS.filter(lambda text: len(text) > 2))
def test_a_path_counts_what_followed_the_whole_of_it(text):
    matcher = automaton(text)
    for length, state in matcher.suffixes():
        part = text[len(text) - length :]
        best = matcher.best(state)
        while best is not None:
            part = [*part, best.token]
            best = matcher.best(best.after)
            assert (best.total if best else 0) == followers(part, text).total()


@given(TEXTS, st.integers(1, 9))
def test_text_read_token_by_token_is_text_read_at_once(text, size):
    slowly = automaton([])
    for start in range(0, len(text), size):
        slowly.read(text[start : start + size])
    assert list(slowly.suffixes()) == list(automaton(text).suffixes())


def test_of_equal_counts_the_latest_follows():
    matcher = automaton([7, 1, 7, 2, 7])
    ((_, state),) = matcher.suffixes()
    assert matcher.best(state) == Continuation(2, 1, 2, matcher.match(1, state, 2)[1])


def test_a_substring_that_anything_may_follow_says_nothing():
    text = [token for other in range(WIDEST + 1) for token in (99, other)] + [99]
    matcher = automaton(text)
    ((_, state),) = matcher.suffixes()
    assert matcher.best(state) is None


@pytest.mark.parametrize("most", [1, 2, 7, 64])
def test_memory_is_bounded_and_what_is_kept_is_the_end(most):
    text = random.Random(most).choices(range(5), k=500)
    matcher = automaton([], most)
    for token in text:
        matcher.read([token])
        assert len(matcher.tokens) <= most
    assert matcher.tokens == text[len(text) - len(matcher.tokens) :]
    assert len(matcher.tokens) >= most // 2
    assert list(matcher.suffixes()) == list(automaton(matcher.tokens).suffixes())


def test_a_text_longer_than_the_bound_leaves_its_end():
    assert automaton(list(range(100)), most=10).tokens == list(range(90, 100))


@pytest.mark.parametrize("period", [1, 2, 7])
def test_a_token_takes_bounded_time_even_where_the_text_repeats_itself(period):
    """The work of a token is states made and counts changed: at most 2 and `COUNTED`."""
    matcher = automaton([], most=10_000)
    for index in range(3000):
        matcher.read([index % period])
        assert matcher._latest.count(index + 1) <= COUNTED
    assert len(matcher._lengths) <= 2 * 3000


# --- a text in others ----------------------------------------------------------------------------


@given(TEXTS, TEXTS)
def test_a_follower_finds_the_suffixes_that_occur_in_another_text(known, text):
    follower = Follower(automaton(known))
    follower.read(text)
    expected = classes(suffixes_of(text), known)
    found = list(follower.suffixes())
    assert [length for length, _ in found] == [length for length, _ in expected]
    for (_, state), (_, after) in zip(found, expected, strict=True):
        best = follower.best(state)
        assert (best.total if best else 0) == after.total()
        if best:
            assert best.times == after[best.token] == max(after.values())


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_sorted_texts_have_every_occurrence(texts, text):
    array = SuffixArray([np.array(known, np.int32) for known in texts])
    matcher = array.begin()
    matcher.read(text)
    joined = [token for known in texts for token in (*known, -1)]
    expected = classes(suffixes_of(text[-DEPTH:]), joined)
    found = list(matcher.suffixes())
    assert [(length, len(at)) for length, at in found] == [
        (length, after.total()) for length, after in expected
    ]
    for (_, at), (_, after) in zip(found, expected, strict=True):
        best = matcher.best(at)
        likely = [token for token in after if token >= 0]
        assert (best is None) == (not likely) or len(at) > SAMPLED
        if best and len(at) <= SAMPLED:
            assert (best.total, best.times) == (after.total(), after[best.token])
            assert best.times == max(after[token] for token in likely)


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_what_ends_a_text_is_never_proposed(texts, text):
    joined = [token for known in texts for token in (*known, -1)]
    stores = (SuffixArray([np.array(known, np.int32) for known in texts]), Fixed(joined))
    draft = SuffixLookup(stores)
    draft.begin([9])
    assert all(token >= 0 for token in draft.propose([9, *text], 8, Seeded(0)).tokens)


class Fixed:
    """A store that follows one text."""

    def __init__(self, tokens) -> None:
        self._automaton = automaton(tokens)

    def begin(self) -> Follower:
        return Follower(self._automaton)


def test_long_prompts_are_read_by_their_end():
    known = list(range(300))
    follower = Follower(automaton(known))
    follower.read(known[:200])
    assert next(follower.suffixes())[0] == READ


# --- what is proposed ----------------------------------------------------------------------------


def proposed(prompt, text=(), gamma=4, **options) -> list[int]:
    draft = SuffixLookup(**options)
    draft.begin(prompt)
    return list(draft.propose([prompt[-1], *text], gamma, Seeded(0)).tokens)


def test_the_longest_match_continues():
    assert proposed([1, 2, 3, 4, 5, 9, 3, 6, 1, 2, 3]) == [4, 5, 9, 3]
    assert proposed([1, 2, 3, 4, 5], [8, 2, 3], gamma=2) == [4, 5]
    assert proposed([1, 2, 3]) == []


def test_a_shorter_match_continues_where_it_is_more_certain():
    once = [8, 3, 4]
    assert proposed([*once, 8, 3], gamma=1) == [4]
    assert proposed([*once, *[2, 3, 5] * 6, 8, 3], gamma=1) == [5]  # six of seven after one token


def test_a_chance_grows_with_the_match_and_with_the_counts():
    lengths = [chance(length, Continuation(0, 1, 1, None)) for length in (1, 2, 4, 8, 64, 999)]
    counts = [chance(2, Continuation(0, count, 5, None)) for count in range(1, 6)]
    for values in (lengths, counts):
        assert all(0 < one <= other < 1 for one, other in pairwise(values))
    assert chance(1, Continuation(0, 1, 1, None)) == pytest.approx(1 / 4)


def test_nothing_is_proposed_below_the_least_chance():
    prompt = [1, 2, 3, 1, 2]
    sure = chance(2, Continuation(3, 1, 1, None))
    assert proposed(prompt, at_least=sure, gamma=1) == [3]
    assert proposed(prompt, at_least=sure + 1e-9, gamma=1) == []


def test_a_draft_ends_where_a_token_is_not_worth_its_row():
    asked = []

    def worth(probability, rows):
        asked.append((probability, rows))
        return rows < 3

    assert proposed([1, 2, 3, 4, 1, 2], worth=worth, gamma=8) == [3, 4]
    probabilities, rows = zip(*asked, strict=True)
    assert rows == (1, 2, 3)
    steps = [chance(length, Continuation(0, 1, 1, None)) for length in (2, 3, 4)]
    assert probabilities == pytest.approx(np.cumprod(steps))


@given(TEXTS.filter(bool), TEXTS, st.integers(0, 6))
def test_a_longer_draft_begins_with_the_shorter_one(prompt, text, gamma):
    assert proposed(prompt, text, gamma) == proposed(prompt, text, 7)[:gamma]


@given(TEXTS.filter(bool), TEXTS)
def test_a_draft_does_not_depend_on_the_rounds_before(prompt, text):
    draft = SuffixLookup()
    draft.begin(prompt)
    for end in range(len(text) + 1):
        last = draft.propose([prompt[-1], *text[:end]], 4, Seeded(0))
    assert list(last.tokens) == proposed(prompt, text)


def test_every_text_begins_anew():
    draft = SuffixLookup()
    draft.begin([1, 2, 3, 1, 2])
    assert draft.propose([2], 1, Seeded(0)).tokens == [3]
    draft.begin([1, 2])
    assert draft.propose([2], 1, Seeded(0)).tokens == ()


def test_a_store_answers_where_the_text_has_nothing():
    stores = (SuffixArray([np.array([5, 6, 7, 8], np.int32)]),)
    assert proposed([1, 5, 6], stores=stores) == [7, 8]
    assert proposed([1, 5, 6, 9, 5, 6], stores=stores, gamma=1) == [9]  # the text's own, if equal
