"""Claim: a matcher that goes over a limit is never taken for an answer about the text.

A text stays in its grammar or is an error that names the grammar; and which of the two does not
depend on what a draft asked.
"""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from tokenizers import Tokenizer

import edgespec
from depth import one_in
from edgespec.core.decode import Round
from edgespec.errors import EdgespecError, UsageError
from edgespec.grammar.draft_matcher import DraftMatcher
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_place import StoppedMatcherError
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from hashed_model import HashedModel, hashed_pair
from shipped_models import MODELS

pytest.importorskip("llguidance")

END = 2
LONGEST = 25  # tokens of a walk

# Expressions that go over a limit, with others that their texts match, which Python decides fast.
BEYOND = {
    "((a{1,100}){1,100}){1,100}": "a*",
    "(?:(?:(?:a?){50}){50}){50}": "a*",
    "((([aeiou]+){1,60}){0,3}){1,60}": "[aeiou]*",
    "((([a-f]{2}){1,50}){1,50}){1,50}x": "[a-f]*x?",
    "(.*){10}" * 20: ".*",
    "(?:(?:[ab]{0,30}){0,30}c?){0,30}": "[abc]*",
    "(([a-z]+ ){1,40}){1,40}\\.": r"[a-z ]*\.?",
}


@pytest.fixture(scope="module")
def vocabulary():
    """That of a model of 49 152 tokens, many of which are long."""
    tokenizer = Tokenizer.from_file(str(MODELS / "smollm2-draft/tokenizer.json"))
    return tokenizer, GrammarVocabulary(tokenizer, tokenizer.get_vocab_size(), [END])


def by_rows(matcher, text, choose):
    """The next token, as sampling finds it; one that goes on where there is one."""
    legal = np.flatnonzero(matcher.legal(text)).tolist()
    return choose.choice([token for token in legal if token != END] or legal)


def by_tokens(matcher, text, choose):
    """The next token, as greedy decoding finds it: the first of its best ones, if that is legal,
    and else the best legal one."""
    best = choose.choices(range(matcher._vocabulary.size), k=40)
    found = next((token for token in best if matcher.allows(token, text)), None)
    return by_rows(matcher, text, choose) if found is None else found


def walked(matcher, following, seed, ask=lambda text: None):
    """A text, and the error that ends it, if one does."""
    choose, text = random.Random(seed), []
    while len(text) < LONGEST and END not in text:
        ask(text)
        try:
            text.append(following(matcher, text, choose))
        except StoppedMatcherError as error:
            return text, str(error)
    return text, None


@one_in(2, turn=1)
@pytest.mark.parametrize("following", [by_rows, by_tokens])
@pytest.mark.parametrize("pattern", BEYOND)
def test_a_text_never_leaves_its_grammar(vocabulary, pattern, following):
    tokenizer, tokens = vocabulary
    text, error = walked(GrammarMatcher(edgespec.regex(pattern), tokens), following, seed=1)
    assert re.fullmatch(BEYOND[pattern], tokenizer.decode(text), re.DOTALL)
    if error:
        assert error.startswith(f"the regular expression is too large: after {len(text)} tokens")
        assert error.endswith("or make their numbers smaller")
        assert "\n" not in error
        assert len(error) < 300


def test_some_of_them_go_over_a_limit(vocabulary):
    """Else nothing above was tried. The limit is named."""
    _, tokens = vocabulary
    errors = [
        walked(GrammarMatcher(edgespec.regex(pattern), tokens), by_rows, seed=1)[1]
        for pattern in BEYOND
    ]
    assert sum(error is not None for error in errors) >= 3
    assert any("the limit is 200000 a step" in error for error in errors if error)


def asking_at_random(draft, tokens, seed):
    """A draft that asks its matcher about many texts, most of which never come."""
    choose = random.Random(seed)

    def ask(text):
        for length in range(1, 4):
            guess = [*text, *choose.choices(range(tokens.size), k=length)]
            draft.legal(guess)
            draft.allows(guess[-1], guess[:-1])
            draft.forced(text, length)
        draft.legal(text)

    return ask


@one_in(2)
@pytest.mark.parametrize("following", [by_rows, by_tokens])
@pytest.mark.parametrize("pattern", BEYOND)
def test_what_a_draft_asks_changes_neither_text_nor_error(vocabulary, pattern, following):
    _, tokens = vocabulary
    grammar = edgespec.regex(pattern)
    alone = walked(GrammarMatcher(grammar, tokens), following, seed=2)
    ask = asking_at_random(DraftMatcher(grammar, tokens), tokens, seed=3)
    assert walked(GrammarMatcher(grammar, tokens), following, seed=2, ask=ask) == alone


class Shared(DraftMatcher):
    """Mutant: a draft asks the target's matcher."""

    def __init__(self, matcher, *arguments):
        super().__init__(*arguments)
        self._target = matcher

    @property
    def _matcher(self):
        self._stopped = False
        return self._target


def test_a_matcher_that_target_and_draft_share_is_caught(vocabulary):
    _, tokens = vocabulary
    grammar = edgespec.regex("((([aeiou]+){1,60}){0,3}){1,60}")
    alone = walked(GrammarMatcher(grammar, tokens), by_tokens, seed=2)
    shared = GrammarMatcher(grammar, tokens)
    ask = asking_at_random(Shared(shared, grammar, tokens), tokens, seed=3)
    assert walked(shared, by_tokens, seed=2, ask=ask) != alone


def test_a_draft_goes_without_what_its_matcher_cannot_tell(vocabulary):
    _, tokens = vocabulary
    grammar = edgespec.regex("((a{1,100}){1,100}){1,100}")
    judge, draft = GrammarMatcher(grammar, tokens), DraftMatcher(grammar, tokens)
    text = [tokens.tokens.greedy_tokenize("a")[0]] * 60
    with pytest.raises(StoppedMatcherError):
        judge.legal(text)
    assert not draft.legal(text).any()
    assert not draft.allows(text[0], text)
    assert list(draft.forced(text, 3)) == []


def test_a_place_where_no_token_fits_is_no_limit(chat_folder):
    """The grammar goes on with a character that this model's tokens cannot write."""
    chat = edgespec.load(chat_folder, threads=1)
    with pytest.raises(UsageError, match="after 1 tokens, the grammar and the other options"):
        chat.generate("a", grammar=edgespec.lark('start: "a" "\\u00e9"'), draft=False)
    text = chat.generate(
        "a", grammar=edgespec.lark('start: "a" ("\\u00e9" | "b")'), draft=False
    ).text
    assert text == "ab"


# --- pairs ----------------------------------------------------------------------------------------


@pytest.fixture
def hashed(tiny):
    """A pair with models that a test can afford to ask often; its tokens are bytes."""
    size = tiny.target.vocab_size
    return hashed_pair(tiny, HashedModel(size, 3), HashedModel(size, 3, noise=0.1))


def emitted(pair, **options):
    """The tokens that a reader gets, and the error."""
    tokens = []
    try:
        tokens.extend(chunk.token for chunk in pair.stream([70, 71], **options))
    except EdgespecError as error:
        return tokens, str(error)
    return tokens, None


@one_in(2)
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 4}], ids=["greedy", "drawn"])
@pytest.mark.parametrize("pattern", BEYOND)
def test_a_pair_s_text_and_error_are_those_without_a_draft(hashed, pattern, sampling):
    options = {"grammar": edgespec.regex(pattern), "max_new_tokens": 60, **sampling}
    alone = emitted(hashed, draft=False, **options)
    for draft in ("model", "lookup", "both"):
        assert emitted(hashed, draft=draft, gamma=4, **options) == alone


SENTENCE = edgespec.regex(r"[a-z ]{5,60}\.")


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 4}], ids=["greedy", "drawn"])
@pytest.mark.parametrize("gamma", [1, 3, 7, "auto"])
def test_a_stop_string_ends_a_text_after_which_no_token_would_be_left(hashed, gamma, sampling):
    """The row after the full stop has no token: the grammar has none, and it must not end yet."""
    dot = hashed.encode(".")[-1]
    options = {"grammar": SENTENCE, "stop": ["."], "min_tokens": 70, "logit_bias": {dot: 4.0}}
    options |= {"max_new_tokens": 70, **sampling}
    alone = hashed.generate([70, 71], draft=False, **options)
    assert alone.finish_reason == "stop"
    for draft in ("model", "lookup", "both"):
        drafted = hashed.generate([70, 71], draft=draft, gamma=gamma, **options)
        assert (drafted.token_ids, drafted.text) == (alone.token_ids, alone.text)
        assert drafted.finish_reason == "stop"


@pytest.mark.parametrize("gamma", [1, 4])
def test_a_text_that_must_go_on_where_nothing_may_follow_is_the_same_error(hashed, gamma):
    options = {"grammar": edgespec.regex("[a-z]{7}"), "min_tokens": 20, "max_new_tokens": 40}
    alone = emitted(hashed, draft=False, **options)
    assert len(alone[0]) == 7
    assert alone[1].startswith("after 7 tokens, the grammar and the other options")
    assert emitted(hashed, draft="model", gamma=gamma, **options) == alone


# --- the text itself ------------------------------------------------------------------------------


def rounds_of(*runs):
    return iter([Round(run, 0, 0, 0, None) for run in runs])


@pytest.mark.parametrize(
    ("runs", "fits"),
    [
        ([["a"], ["b", "c"]], True),
        ([["a", "b"], ["c", END]], True),
        ([["a"], ["a"]], False),
        ([["a", "b", END]], False),
        ([["a"], ["b", "c", "d"]], False),
        ([[END]], False),
    ],
    ids=str,
)
def test_a_text_outside_its_grammar_is_an_error_whatever_let_it_pass(vocabulary, runs, fits):
    tokenizer, tokens = vocabulary
    ids = [[t if t == END else tokenizer.token_to_id(t) for t in run] for run in runs]
    matcher = GrammarMatcher(edgespec.regex("abc"), tokens)
    if fits:
        assert [round_.tokens for round_ in matcher.fitting(rounds_of(*ids))] == ids
        return
    with pytest.raises(EdgespecError, match="the text left its regular expression"):
        list(matcher.fitting(rounds_of(*ids)))
