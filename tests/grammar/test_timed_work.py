"""Claim: no token of a grammar takes long, and nothing is added to what was given up."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest
from tokenizers import Tokenizer

import edgespec
from edgespec.errors import UsageError
from edgespec.grammar import timed_work
from edgespec.grammar.draft_matcher import DraftMatcher
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.timed_work import SlowMatcherError, TimedWork
from shipped_models import MODELS

pytest.importorskip("llguidance")

END = 2


@pytest.fixture
def hasty(monkeypatch):
    """A limit that a test can afford to meet."""
    monkeypatch.setattr(timed_work, "LONGEST_S", 0.04)
    monkeypatch.setattr(timed_work, "WAITED_S", 0.4)


def test_results_and_errors_are_those_of_the_work():
    timed = TimedWork()
    assert [timed("grammar", lambda n=n: n) for n in range(5)] == [0, 1, 2, 3, 4]
    for error in (ValueError("wrong"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            timed("grammar", lambda error=error: raised(error))
    timed.check()


def raised(error):
    raise error


@pytest.mark.parametrize("works", [True, False], ids=["it computes", "it waits"])
def test_long_work_is_given_up_and_no_other_is_begun_until_it_ends(works, hasty):
    timed, goes_on = TimedWork(), threading.Event()

    def work():
        while not goes_on.is_set():
            if not works:
                goes_on.wait()

    with pytest.raises(SlowMatcherError, match="the grammar is too ambiguous: its matcher takes"):
        timed("grammar", work)
    with pytest.raises(UsageError, match="an earlier Lark grammar still takes a core"):
        timed.check()
    goes_on.set()
    timed._given_up[0].join()
    timed.check()


# --- grammars -------------------------------------------------------------------------------------


def hidden(count):
    """An ambiguous grammar behind a word that a reader hardly comes upon."""
    pairs = " | ".join(f"x{i} x{j}" for i in range(count) for j in range(count))
    names = "\n".join(f"x{i}: s" for i in range(count))
    return f'start: /[b-z]{{1,50}}/ | "aaa" s\ns: {pairs} | "a"\n{names}\n'


@pytest.fixture(scope="module")
def model_vocabulary():
    tokenizer = Tokenizer.from_file(str(MODELS / "smollm2-draft/tokenizer.json"))
    made = GrammarVocabulary(tokenizer, tokenizer.get_vocab_size(), [END])
    return made, tokenizer.encode("a").ids[0]


@pytest.fixture
def vocabulary(model_vocabulary):
    vocabulary, _ = model_vocabulary
    timed = vocabulary.timed = TimedWork()
    yield vocabulary
    for thread in timed._given_up:  # no burden for other tests
        thread.join(60)


@pytest.fixture
def letter(model_vocabulary):
    return model_vocabulary[1]


def walked(matcher, letter):
    """Rows of a text of one letter, until one fails."""
    for count in range(60):
        matcher.legal([letter] * count)


def test_an_ambiguous_grammar_is_one_line_and_others_go_on(vocabulary, letter, hasty):
    grammar = edgespec.lark(hidden(9))
    matcher = GrammarMatcher(grammar, vocabulary)
    with pytest.raises(SlowMatcherError) as failed:
        walked(matcher, letter)
    assert len(str(failed.value).splitlines()) == 1
    questions = (
        lambda: walked(matcher, letter),
        lambda: matcher.may_end([letter]),
        lambda: matcher.readable([letter], [letter]),
        lambda: matcher._place.may_end(),
        lambda: matcher._place.go([]),
        lambda: matcher._place.check(),
    )
    for question in questions:  # what is lost is not asked again
        with pytest.raises(SlowMatcherError):
            question()
    with suppress(UsageError):
        GrammarMatcher(edgespec.lark('start: "a"'), vocabulary)
        # It was taken, so what was given up has ended meanwhile.
        assert not any(thread.is_alive() for thread in vocabulary.timed._given_up)
    for other in (edgespec.regex("[a-z]+"), edgespec.json_schema({"type": "integer"})):
        assert np.any(GrammarMatcher(other, vocabulary).legal([]))


def test_a_draft_of_an_ambiguous_grammar_ends_and_the_text_does_not(vocabulary, letter, hasty):
    drafted = DraftMatcher(edgespec.lark(hidden(9)), vocabulary)
    for count in range(40):
        row = drafted.legal([letter] * count)
        if row is not None and not row.any():
            break
    assert not drafted.legal([]).any()
    assert drafted.forced([], 4) == []
    assert not drafted.allows(letter, [])


def test_usual_lark_grammars_are_not_slower_than_that(vocabulary):
    grammar = edgespec.lark(
        'start: sum\nsum: sum "+" sum | sum "*" sum | "(" sum ")" | NUMBER\nNUMBER: /[0-9]+/\n'
    )
    matcher = GrammarMatcher(grammar, vocabulary)
    text: list[int] = []
    for _ in range(12):
        legal = np.flatnonzero(matcher.legal(text))
        text.append(int(legal[legal != END][-1]))
    assert len(text) == 12
