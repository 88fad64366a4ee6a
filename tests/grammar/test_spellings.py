"""Claim: a forced text is drafted in the tokens that the target chose for it before; and whatever
was learned changes no text."""

from __future__ import annotations

import pytest
from test_grammars import TOKENIZERS

import edgespec
from checkpoints import write_noisy, write_small_llama
from edgespec.grammar import spellings as spellings_module
from edgespec.grammar.draft_matcher import DraftMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.spellings import LONGEST_KEY, Spellings
from edgespec_export.export_pair import export_pair

pytest.importorskip("llguidance")

END = 2


def chain(spellings, forced, written):
    """The tokens that a forced text is spelled with, as far as it is known."""
    tokens = []
    while (token := spellings.first(forced)) is not None:
        tokens.append(token)
        forced = forced[len(written[token]) :]
    return tokens


WRITTEN = {1: b"key", 2: b"k", 3: b"ey", 4: b'": "x'}


def learned(*tokens):
    spellings = Spellings()
    spellings.learn(b'key": "', [(token, WRITTEN[token]) for token in tokens])
    return spellings


def test_a_spelling_is_known_from_any_of_its_places():
    spellings = learned(2, 3)
    assert chain(spellings, b'key": "', WRITTEN) == [2, 3]
    assert chain(spellings, b'ey": "', WRITTEN) == [3]
    assert spellings.first(b"key") is None


def test_the_latest_spelling_counts():
    spellings = learned(2, 3)
    spellings.learn(b'key": "', [(1, WRITTEN[1])])
    assert chain(spellings, b'key": "', WRITTEN) == [1]


def test_a_token_that_writes_more_than_is_forced_is_not_learned():
    """What follows is not forced."""
    assert chain(learned(1, 4, 1), b'key": "', WRITTEN) == [1]


def test_tokens_that_do_not_write_the_forced_text_are_not_learned():
    assert learned(3).first(b'key": "') is None
    spellings = Spellings()
    spellings.learn(b"key", [(9, b"")])  # a token that no text shows
    assert spellings.first(b"key") is None


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(spellings_module, "MOST_KEPT", 2)
    spellings = Spellings()
    for text in (b"a", b"b", b"a", b"c"):
        spellings.learn(text, [(1, text)])
    assert [spellings.first(text) for text in (b"a", b"b", b"c")] == [1, None, 1]


def test_long_texts_are_told_apart_by_their_beginning():
    spellings = Spellings()
    spellings.learn(b"a" * 5 * LONGEST_KEY, [(1, b"a")] * 5 * LONGEST_KEY)
    assert len(spellings._first) == LONGEST_KEY


# --- a matcher ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words():
    tokenizer = TOKENIZERS["byte-level"][0]()
    return tokenizer, GrammarVocabulary(tokenizer, tokenizer.get_vocab_size(), [END])


LIST = edgespec.lark('start: ("<" /[a-z]/ ": the number> ")+ "."')


def test_a_matcher_proposes_what_came_before_and_then_what_the_tokenizer_does(words):
    tokenizer, vocabulary = words
    usual = tokenizer.encode(": the number> ", add_special_tokens=False).ids
    letters = [tokenizer.token_to_id("Ġ" if letter == " " else letter) for letter in ": the n"]
    record = [tokenizer.token_to_id(token) for token in "<x"]
    matcher = DraftMatcher(LIST, vocabulary)
    first = list(matcher.forced(record, 9))
    assert first == usual[: len(first)] != letters[: len(first)]
    matcher.forced([*record, *letters], 9)  # the target spelled it by letters
    rest = [*letters, *tokenizer.encode("umber> ", add_special_tokens=False).ids]
    again = list(matcher.forced([*record, *rest, *record], len(letters)))
    assert again == letters


def test_matchers_that_share_spellings_share_what_was_learned(words):
    tokenizer, vocabulary = words
    record = [tokenizer.token_to_id(token) for token in "<x"]
    letter = tokenizer.token_to_id(":")
    space = tokenizer.token_to_id("Ġ")
    shared = Spellings()
    matcher = DraftMatcher(LIST, vocabulary, shared)
    matcher.forced(record, 9)
    matcher.forced([*record, letter, space], 9)
    assert list(DraftMatcher(LIST, vocabulary, shared).forced(record, 2)) == [letter, space]
    assert list(DraftMatcher(LIST, vocabulary).forced(record, 2)) != [letter, space]


def test_what_was_learned_is_proposed_only_where_it_is_legal(words):
    tokenizer, vocabulary = words
    shared = Spellings()
    shared.learn(b"b", [(tokenizer.token_to_id("x"), b"b")])  # as in another tokenizer
    assert list(DraftMatcher(edgespec.regex("b"), vocabulary, shared).forced([], 3)) == []


def test_an_end_is_forced_where_nothing_else_may_follow(words):
    tokenizer, vocabulary = words
    a = tokenizer.token_to_id("a")
    assert list(DraftMatcher(edgespec.regex("a"), vocabulary).forced([a], 3)) == [END]
    assert list(DraftMatcher(edgespec.regex("ab?"), vocabulary).forced([a], 3)) == []
    assert list(DraftMatcher(edgespec.regex("a"), vocabulary).forced([a, END], 3)) == []


# --- a pair ---------------------------------------------------------------------------------------

RECORD = {
    "type": "object",
    "properties": {
        "classification": {"enum": ["science", "history"]},
        "is_certain": {"type": "boolean"},
    },
    "required": ["classification", "is_certain"],
    "additionalProperties": False,
}


@pytest.fixture
def new_pair(tmp_path_factory):
    """A random Llama over bytes, opened anew: it has spelled nothing yet."""
    folder = tmp_path_factory.getbasetemp() / "spelled"
    if not folder.exists():
        target = write_small_llama(folder / "target", max_position_embeddings=512)
        draft = write_noisy(target, folder / "draft", noise=0.05)
        export_pair(str(target), str(draft), folder / "pair", threads=1)
    return lambda: edgespec.load(folder / "pair", threads=1)


OPTIONS = {"grammar": edgespec.json_schema(RECORD), "max_new_tokens": 100, "gamma": 6}


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 5}], ids=["greedy", "drawn"])
def test_texts_do_not_depend_on_what_was_learned(new_pair, sampling):
    pair = new_pair()
    plain = [pair.generate(p, draft=False, **OPTIONS, **sampling).token_ids for p in "xyz"]
    for _ in range(2):
        for prompt, expected in zip("xyz", plain, strict=True):
            assert (
                pair.generate(prompt, draft="lookup", **OPTIONS, **sampling).token_ids == expected
            )


@pytest.mark.parametrize("rule", ["token", "block"])
def test_rules_whose_text_depends_on_the_draft_learn_within_a_text_only(new_pair, rule):
    """So that a seed draws the same text again."""
    options = {**OPTIONS, "temperature": 1.0, "rule": rule, "draft": "lookup"}
    pair = new_pair()
    learned = pair.generate("x", draft="lookup", **OPTIONS)
    assert learned.stats.accepted
    assert pair.text_engine._spellings._first
    kept = dict(pair.text_engine._spellings._first)
    for seed in range(4):
        texts = [pair.generate("x", seed=seed, **options).token_ids for _ in range(2)]
        assert texts[0] == texts[1]
    assert pair.text_engine._spellings._first == kept


def test_a_second_record_takes_fewer_calls(new_pair, monkeypatch):
    """Here the tokenizer spells otherwise than the target does: the matcher's own spelling is made
    unusable. Without anything learned, the same would take as many calls again."""
    monkeypatch.setattr("edgespec.grammar.grammar_place.Place.forced_tokens", lambda place: [])
    pair = new_pair()
    calls = [len(pair.generate("x", draft="lookup", **OPTIONS).stats.rounds) for _ in range(2)]
    assert calls[1] < calls[0] / 2
    pair.text_engine._spellings = Spellings()
    assert len(pair.generate("x", draft="lookup", **OPTIONS).stats.rounds) == calls[0]
