"""Claim: after every text, exactly those tokens are legal that keep it the beginning of a text of
the grammar; and a pair's texts of a grammar are plain decoding's, whatever drafts."""

from __future__ import annotations

import random
import re
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer

import edgespec
from checkpoints import byte_tokenizer, character_tokenizer, word_tokenizer
from depth import one_in
from edgespec.drafters.token_intersection import TokenIntersection
from edgespec.drafters.vocabulary_map import SharedTokens, SomeTokens
from edgespec.errors import EdgespecError, UsageError
from edgespec.grammar.draft_matcher import DraftMatcher
from edgespec.grammar.grammar import MAX_CHARACTERS, Grammar
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from shipped_models import MODELS

pytest.importorskip("llguidance")

TOKENIZERS = {
    "bytes": (lambda: byte_tokenizer(272), 1),
    "characters": (lambda: character_tokenizer(272), 1),
    "byte-level": (lambda: Tokenizer.from_file(str(MODELS / "smollm2-draft/tokenizer.json")), 2),
    "sentencepiece": (lambda: Tokenizer.from_file(str(MODELS / "en-de-target/tokenizer.json")), 1),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def vocabulary(request):
    """(tokenizer, vocabulary, end-of-text token) of a model whose rows are a little wider."""
    make, end = TOKENIZERS[request.param]
    tokenizer = make()
    return tokenizer, GrammarVocabulary(tokenizer, tokenizer.get_vocab_size() + 5, [end]), end


def choice(*texts):
    """The grammar of a few texts."""
    return edgespec.regex("|".join(re.escape(text) for text in texts))


def begins(tokenizer, tokens, texts):
    """Whether tokens, as the tokenizer decodes them, are the beginning of a text."""
    decoded = tokenizer.decode(tokens)
    return any(text.startswith(decoded) for text in texts)


# --- which tokens are legal -----------------------------------------------------------------------

LANGUAGES = {
    "words": ["The file", "The files", "Die Datei", "a"],
    "a space at the beginning": [" The", " file of", "  two"],
    "json": ['{"name": "a"}', '{"name": 12}', "[1, 2]"],
    "one text": ["Open the file and read it."],
}


@one_in(2)
@pytest.mark.parametrize("name", LANGUAGES)
def test_exactly_the_tokens_are_legal_that_continue_a_text(vocabulary, name):
    """Every token of the vocabulary, after every beginning that single tokens lead to."""
    tokenizer, tokens, end = vocabulary
    texts = LANGUAGES[name]
    matcher = GrammarMatcher(choice(*texts), tokens)
    generator = random.Random(0)
    special = set(tokens.special.tolist())
    generated: list[int] = []
    for _ in range(8):
        row = matcher.legal(generated)
        expected = [
            token < tokenizer.get_vocab_size()
            and token not in special
            and tokenizer.id_to_token(token) is not None
            and begins(tokenizer, [*generated, token], texts)
            for token in range(tokens.size)
        ]
        expected[end] = tokenizer.decode(generated) in texts
        wrong = np.flatnonzero(row != np.array(expected)).tolist()
        assert not wrong, [(token, tokenizer.id_to_token(token)) for token in wrong[:5]]
        likely = [token for token in np.flatnonzero(row).tolist() if token != end]
        if not likely:
            break
        generated.append(generator.choice(likely))


def test_what_follows_does_not_depend_on_what_was_asked_before(vocabulary):
    """Texts are asked about in any order, as rounds with rejected tokens do."""
    _, tokens, end = vocabulary
    grammar = edgespec.regex(r"[a-z ]{0,6}(, [a-z ]{1,6}){0,3}\.")
    generator = random.Random(1)
    walked = GrammarMatcher(grammar, tokens)
    texts = [[]]
    for _ in range(40):
        text = generator.choice(texts)
        row = walked.legal(text)
        token = generator.choice(np.flatnonzero(row).tolist())
        if token != end:
            texts.append([*text, token])
    generator.shuffle(texts)
    for text in texts:
        alone = GrammarMatcher(grammar, tokens).legal(text)
        assert (walked.legal(text) == alone).all()


@one_in(2)
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_token_alone_is_allowed_where_its_row_says_so(vocabulary, name):
    """Walks legal texts, asking a matcher that makes no rows about every 7th token, all legal ones
    and the special ones."""
    _, tokens, end = vocabulary
    grammar = choice(*LANGUAGES[name])
    choose = random.Random(3)
    rows, alone = GrammarMatcher(grammar, tokens), GrammarMatcher(grammar, tokens)
    text = []
    while (row := rows.legal(text)) is not None and len(text) < 12:
        legal = np.flatnonzero(row).tolist()
        asked = {*legal, *range(len(text) % 7, tokens.size, 7), *tokens.special.tolist()}
        assert [alone.allows(token, text) for token in asked] == [bool(row[t]) for t in asked]
        text.append(choose.choice(legal))
    assert alone.allows(end, [end])  # nothing depends on what follows the end


def test_no_row_follows_an_illegal_text_or_one_that_has_ended(vocabulary):
    tokenizer, tokens, end = vocabulary
    matcher = GrammarMatcher(edgespec.regex("[ab]{2}c?"), tokens)
    a, z = (tokenizer.token_to_id(name) for name in "az")
    assert matcher.legal([z]) is None
    assert matcher.legal([a, z, a]) is None
    assert matcher.legal([a, a, end]) is None
    assert matcher.legal([a, a, end, a]) is None
    assert matcher.legal([a, a])[end]
    assert not matcher.legal([a])[end]


def test_special_tokens_are_no_text(vocabulary):
    _, tokens, end = vocabulary
    row = GrammarMatcher(edgespec.regex("(?s:.*)"), tokens).legal([])
    assert row[end]
    assert not row[[token for token in tokens.special.tolist() if token != end]].any()


def test_a_forced_text_is_spelled_as_the_tokenizer_does():
    tokenizer = TOKENIZERS["byte-level"][0]()
    tokens = GrammarVocabulary(tokenizer, tokenizer.get_vocab_size(), [2])
    matcher = DraftMatcher(edgespec.lark('start: "It is called " /[a-z]/ ", as before."'), tokens)
    usual = tokenizer.encode("It is called x, as before.", add_special_tokens=False).ids
    assert list(matcher.forced([], 3)) == usual[:3]
    x = usual.index(tokenizer.token_to_id("Ġx"))
    assert list(matcher.forced(usual[: x + 1], 99)) == [*usual[x + 1 :], 2]
    assert list(matcher.forced(usual[:x], 99)) == []


def test_forced_tokens_are_legal(vocabulary):
    _, tokens, _ = vocabulary
    matcher = DraftMatcher(choice("Die Datei wurde umbenannt."), tokens)
    for text in ([], [int(np.flatnonzero(matcher.legal([]))[0])]):
        for count, token in enumerate(matcher.forced(text, 9)):
            assert matcher.legal([*text, *matcher.forced(text, 9)[:count]])[token]


@one_in(2)
def test_a_text_that_is_forced_for_ever_forces_nothing(vocabulary):
    """It goes over a limit of llguidance; the text itself goes on."""
    tokenizer, tokens, _ = vocabulary
    matcher = DraftMatcher(edgespec.lark('start: "a" start'), tokens)
    a = tokenizer.token_to_id("a")
    for count in range(20):
        assert matcher.legal([a] * count)[a]
        assert set(matcher.forced([a] * count, 4)) <= set(np.flatnonzero(matcher.legal([])))


def test_a_tokenizer_that_joins_words_by_itself_is_refused():
    tokenizer = word_tokenizer(20)
    with pytest.raises(EdgespecError, match="writes its tokens in a way that is not known"):
        GrammarVocabulary(tokenizer, 20, [1])


def test_a_model_without_an_end_is_refused():
    with pytest.raises(EdgespecError, match="no end-of-text token"):
        GrammarVocabulary(byte_tokenizer(272), 272, [])


@pytest.mark.parametrize(
    ("vocabulary_map", "size", "expected"),
    [
        (SharedTokens(3), 4, [True, False, True, False]),
        (SomeTokens([1, 2, 4], [0, 0, 1, 0, 2]), 3, [False, True, True]),
        (
            TokenIntersection([[0, 4], [2, 1]], [[2], [0], [0], [0], [1]], [], 3),
            3,
            [False, True, True],
        ),
    ],
    ids=["shared", "some", "common"],
)
def test_a_draft_may_propose_those_of_its_tokens_that_are_legal(vocabulary_map, size, expected):
    legal = np.array([True, False, True, False, True])
    assert vocabulary_map.legal(legal, size).tolist() == expected


# --- texts ----------------------------------------------------------------------------------------

GRAMMARS = {
    "regex": (edgespec.regex, r"[a-z]{3,8}(, [a-z]{3,8}){0,2}\."),
    "lark": (
        edgespec.lark,
        'start: sum\nsum: number ("+" number)~1..3 "=" number\nnumber: /[1-9][0-9]{0,2}/',
    ),
    "any text": (edgespec.regex, "(?s:.{0,20})"),
}
PATTERNS = {
    "regex": GRAMMARS["regex"][1],
    "lark": r"[1-9][0-9]{0,2}(\+[1-9][0-9]{0,2}){1,3}=[1-9][0-9]{0,2}",
    "any text": "(?s:.{0,20})",
}
SAMPLED = [
    {},
    {"temperature": 1.2, "seed": 3},
    {"temperature": 1.5, "top_k": 5, "seed": 1},
    {"temperature": 1.1, "top_p": 0.7, "min_p": 0.02, "seed": 2},
    {"temperature": 1.0, "repetition_penalty": 1.3, "logit_bias": {70: 5.0}, "seed": 4},
]


@one_in(2)
@pytest.mark.parametrize("options", SAMPLED, ids=str)
@pytest.mark.parametrize("name", GRAMMARS)
def test_a_text_fits_its_grammar_whatever_drafts(tiny, name, options):
    make, rules = GRAMMARS[name]
    options = {"grammar": make(rules), "max_new_tokens": 80, "logprobs": True, **options}
    plain = tiny.generate("x", draft=False, **options)
    assert plain.finish_reason == "eos"
    assert re.fullmatch(PATTERNS[name], plain.text)
    for drafting in ({"draft": "model", "gamma": 4}, {"draft": "lookup"}, {"draft": "both"}):
        drafted = tiny.generate("x", **drafting, **options)
        assert drafted.token_ids == plain.token_ids
        assert drafted.logprobs == plain.logprobs


@pytest.mark.parametrize("rule", ["token", "block"])
def test_other_rules_fit_the_grammar_too(tiny, rule):
    for seed in range(10):
        options = {"temperature": 1.2, "seed": seed, "rule": rule, "max_new_tokens": 60}
        result = tiny.generate("x", grammar=edgespec.regex(PATTERNS["lark"]), **options)
        assert re.fullmatch(PATTERNS["lark"], result.text)


def test_forced_tokens_save_calls_and_a_masked_draft_is_accepted(tiny):
    grammar = edgespec.lark('start: "The answer is: " /[a-z]{2}/ ". Nothing else is."')
    for options in ({}, {"temperature": 1.0, "seed": 1}):
        result = tiny.generate("x", grammar=grammar, draft="lookup", max_new_tokens=60, **options)
        assert len(result.stats.rounds) <= 12 < len(result.token_ids)
        # Only the two letters are not forced; whether lookup guesses them, the clock decides.
        assert result.stats.drafted - result.stats.accepted <= 2
    free = tiny.generate("x", draft="model", gamma=3, max_new_tokens=40)
    options = {"draft": "model", "gamma": 3, "max_new_tokens": 40}
    masked = tiny.generate("x", grammar=edgespec.regex("[a-z]{40,}"), **options)
    shares = [result.stats.accepted / result.stats.drafted for result in (free, masked)]
    assert shares[1] > 0.8 * shares[0]


class Stubborn:
    """A caller's drafter that knows nothing of grammars."""

    seconds = 0.0

    def begin(self, prompt):
        pass

    def propose(self, text, gamma, randomness):
        from edgespec.core.distribution import one_hot

        tokens = [72, 70, 71][:gamma]
        return edgespec.Proposal(tokens, [one_hot(token) for token in tokens])


def test_a_caller_s_drafter_is_used_as_well(tiny):
    options = {"grammar": edgespec.regex(PATTERNS["regex"]), "max_new_tokens": 80}
    for sampling in ({}, {"temperature": 1.0, "seed": 3}):
        plain = tiny.generate("x", draft=False, **options, **sampling)
        drafted = tiny.generate("x", draft=Stubborn(), gamma=3, **options, **sampling)
        assert drafted.token_ids == plain.token_ids


def test_a_target_that_returns_tokens_returns_rows_where_they_are_masked(chat_folder):
    chat = edgespec.load(chat_folder, threads=1, target_format="int8", allow_inexact=True)
    text = chat.generate("hello", grammar=edgespec.regex("[A-F]{5}"), max_new_tokens=20).text
    assert re.fullmatch("[A-F]{5}", text)


def test_a_translation_is_free_in_any_text_and_ends_where_it_must(pair):
    """A real pair, whose tokenizer drops the first space of a text."""
    text = "The file could not be opened."
    free = pair.generate(text, max_new_tokens=40)
    same = pair.generate(text, grammar=edgespec.regex("(?s:.*)"), max_new_tokens=40)
    assert same.token_ids == free.token_ids
    spaced = pair.generate(text, grammar=edgespec.regex(r"\PC*[.]"), max_new_tokens=40)
    assert spaced.text == free.text
    other = pair.generate(text, grammar=edgespec.regex("Eine [A-Z][a-z]+[.]"), max_new_tokens=40)
    assert re.fullmatch("Eine [A-Z][a-z]+[.]", other.text)


def test_a_text_that_is_cut_off_says_so(tiny):
    result = tiny.generate("x", grammar=edgespec.regex("a{50}"), max_new_tokens=10)
    assert (result.text, result.finish_reason) == ("a" * 10, "max_tokens")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "rules", "reason"),
    [
        (edgespec.regex, "(a", "the regular expression cannot be used: invalid regex"),
        (edgespec.regex, "(?=a)b", "look-around"),
        (edgespec.regex, r"\bword", "lookarounds not supported"),
        (edgespec.regex, "(" * 5000 + "a" + ")" * 5000, "the regular expression cannot be used"),
        (edgespec.regex, "a" * (MAX_CHARACTERS + 1), f"the limit is {MAX_CHARACTERS}"),
        (edgespec.regex, "\ud800", "is not Unicode text"),
        (edgespec.regex, 3, "the regular expression is 3; give a text"),
        (edgespec.lark, "start: absent", 'unknown name: "absent"'),
        (edgespec.lark, 'other: "a"', "no start rule"),
        (edgespec.lark, 'start: "a', "lexer error"),
        (edgespec.lark, "start: " + "(" * 500 + '"a"' + ")" * 500, "too deeply nested"),
        (edgespec.lark, "start: @other", "unknown grammar @other"),
        (
            edgespec.lark,
            'start: %json {"uniqueItems": true}',
            'Unimplemented keys: ["uniqueItems"]',
        ),
        (edgespec.lark, '%llguidance {}\nstart: "a"', "sets options by %llguidance"),
        (edgespec.lark, b"start", "the Lark grammar is b'start'; give a text"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:30]),
)
def test_a_grammar_that_cannot_be_used_is_one_line(make, rules, reason):
    with pytest.raises(UsageError, match=re.escape(reason)) as raised:
        make(rules)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "rules",
    ["start: start", "start: a\na: b\nb: a", "start: <[1]>", 'start: "\\u00e9"'],
)
def test_a_grammar_without_a_text_is_refused_before_anything_is_computed(chat_folder, rules):
    chat = edgespec.load(chat_folder, threads=1)  # its tokens are ASCII and Chinese characters
    with pytest.raises(UsageError, match="allows no text that this model's tokens can write"):
        chat.stream("a", grammar=edgespec.lark(rules))


def test_left_recursion_is_no_error(tiny):
    grammar = edgespec.lark('start: start "+" /[0-9]/ | /[0-9]/')
    text = tiny.generate("x", grammar=grammar, max_new_tokens=30).text
    assert re.match(r"\d(\+\d)*", text)


@pytest.mark.parametrize("draft", [False, "model"])
def test_a_text_that_the_vocabulary_cannot_go_on_with_is_one_line(chat_folder, draft):
    chat = edgespec.load(chat_folder, threads=1)
    with pytest.raises(EdgespecError, match="after 2 tokens, the grammar and the other options"):
        chat.generate("a", grammar=edgespec.regex("aaé"), draft=draft)


def test_options_that_contradict_a_grammar_are_refused(tiny):
    grammar = edgespec.regex("a")
    with pytest.raises(UsageError, match="ignore_eos goes on after a grammar's end"):
        tiny.stream("x", grammar=grammar, ignore_eos=True)
    with pytest.raises(UsageError, match="grammar is 'a'; give "):
        tiny.stream("x", grammar="a")
    with pytest.raises(EdgespecError, match="min_tokens"):
        tiny.generate("x", grammar=grammar, min_tokens=5)


def test_a_grammar_without_llguidance_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(EdgespecError, match=r"pip install .*\[grammar\]"):
        Grammar("regular expression", "start: /a/")
