"""Claim: libedgespec's lookup proposes Python's tokens, and takes turns with a draft model as
Python's does."""

from __future__ import annotations

import ctypes
import random

import pytest

import edgespec
from edgespec.core.draft import Proposal, proposed
from edgespec.core.randomness import Seeded
from edgespec.drafters import registry, suffix_automaton, suffix_lookup
from edgespec.drafters.alternating import AlternatingDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from native_library import NativeModel, int64s

GAMMA = 6
# The first token's least probability, and a further token's for each row; None: γ tokens.
BOUNDS = [(0.0, None), (0.2, None), (0.35, 0.02), (0.2, 0.1)]


def repetitive(count, seed, vocabulary=40):
    """Tokens of which many repeat earlier ones, some with a change."""
    numbers = random.Random(seed)
    tokens = [numbers.randrange(vocabulary) for _ in range(8)]
    while len(tokens) < count:
        begin = numbers.randrange(len(tokens))
        tokens += tokens[begin : begin + numbers.randrange(12)]
        tokens.append(numbers.randrange(vocabulary))
    return tokens[:count]


def pythons_proposals(prompt, text, least, per_row):
    worth = None if per_row is None else lambda probability, rows: probability > per_row * rows
    lookup = SuffixLookup((), worth, least)
    lookup.begin(prompt)
    sequence, draws, proposed = [prompt[-1]], Seeded(0), []
    for token in text:
        sequence.append(token)
        tokens = list(lookup.propose(sequence, GAMMA, draws).tokens)
        proposed += [*tokens, *([-1] * (GAMMA - len(tokens)))]
    return proposed


def librarys_proposals(hooks, prompt, text, least, per_row):
    found = (ctypes.c_int64 * (GAMMA * len(text)))()
    hooks.edgespec_hook_lookup(
        int64s(prompt),
        ctypes.c_size_t(len(prompt)),
        int64s(text),
        ctypes.c_size_t(len(text)),
        ctypes.c_int64(GAMMA),
        ctypes.c_double(least),
        ctypes.c_double(-1 if per_row is None else per_row),
        found,
    )
    return list(found)


def texts():
    """Prompts and texts: of many tokens, of few, of one, and with many after the same one."""
    yield [0, 1, 0], [token for other in range(2, 50) for token in (other, 0)]
    for seed, vocabulary in enumerate((1, 3, 40, 400)):
        tokens = repetitive(600, seed, vocabulary)
        yield tokens[:100], tokens[100:]


@pytest.mark.parametrize(("least", "per_row"), BOUNDS)
def test_lookups_are_pythons(hooks, least, per_row):
    proposed = 0
    for prompt, text in texts():
        expected = pythons_proposals(prompt, text, least, per_row)
        assert librarys_proposals(hooks, prompt, text, least, per_row) == expected
        proposed += sum(token >= 0 for token in expected)
    assert proposed > 1000


def test_lookup_forgets_what_pythons_forgets(hooks):
    most = suffix_lookup.MOST_TOKENS
    for prompt_tokens in (most - 20, most + 50):
        tokens = repetitive(prompt_tokens + 60, 5, 900)
        prompt, text = tokens[:prompt_tokens], tokens[prompt_tokens:]
        expected = pythons_proposals(prompt, text, 0.0, None)
        assert librarys_proposals(hooks, prompt, text, 0.0, None) == expected
        assert any(token >= 0 for token in expected)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (suffix_lookup, "SUFFIXES_COMPARED", 2),
        (suffix_lookup, "PRIOR_MISSES", tuple(3 / length**1.4 for length in range(1, 65))),
        (suffix_automaton, "COUNTED", 4),
        (suffix_automaton, "WIDEST", 31),
    ],
)
def test_another_lookup_is_found(hooks, monkeypatch, module, name, wrong):
    monkeypatch.setattr(module, name, wrong)
    assert any(
        librarys_proposals(hooks, prompt, text, *bounds) != pythons_proposals(prompt, text, *bounds)
        for prompt, text in texts()
        for bounds in BOUNDS
    )


WAYS = [
    {"gamma": 3, "temperature": 1.0, "rule": "token"},
    {"gamma": 5, "temperature": 0.7, "rule": "block"},
    {"gamma": 4},
    {"gamma": -1, "temperature": 0.4, "rule": "token"},
    {"gamma": -1, "temperature": 0.8, "rule": "block"},
]
DRAFTS = {"model": 1, "lookup": 2, "both": 3}


def prompts(vocabulary):
    return [[3 + token for token in repetitive(30, seed, vocabulary - 3)] for seed in range(8)]


def pythons_texts(pair, draft, given):
    """Tokens, rounds and accepted tokens of each prompt."""
    options = {**given, "draft": draft, "max_new_tokens": 60, "ignore_eos": True}
    if given["gamma"] < 0:
        options["gamma"] = "auto"
    made = [
        pair.generate(prompt, seed=seed, **options)
        for seed, prompt in enumerate(prompts(pair.target.vocab_size))
    ]
    return [(one.token_ids, one.stats.target_calls, one.stats.accepted) for one in made]


def librarys_texts(model, pair, draft, given):
    session, made = model.session(), []
    options = {**given, "draft": DRAFTS[draft], "max_new_tokens": 60, "ignore_eos": 1}
    for seed, prompt in enumerate(prompts(pair.target.vocab_size)):
        tokens = session.text(prompt, seed=seed, **options)
        made.append((tokens, session.rounds, session.accepted))
    return made


@pytest.fixture(scope="module")
def large(large_folder):
    return edgespec.load(large_folder, threads=1)


@pytest.fixture(scope="module")
def native_large(built, large_folder):
    return NativeModel(large_folder, threads=1)


@pytest.mark.parametrize("given", WAYS)
@pytest.mark.parametrize("draft", DRAFTS)
def test_texts_rounds_and_accepted_tokens_are_pythons(native_large, large, draft, given):
    expected = pythons_texts(large, draft, given)
    assert librarys_texts(native_large, large, draft, given) == expected
    assert sum(accepted for *_, accepted in expected)


class NeverDecays(AlternatingDrafter):
    def observe(self, drafted, evaluated, accepted, candidates):
        for _, controller in self._drafters:
            if not drafted or controller is self._proposer:
                controller.observe(drafted, evaluated, accepted, candidates)


class AllObserve(AlternatingDrafter):
    def observe(self, *counts):
        for _, controller in self._drafters:
            controller.observe(*counts)


class ModelFirst(AlternatingDrafter):
    def __init__(self, drafters):
        super().__init__(drafters[::-1])


class LookupAlways(AlternatingDrafter):
    def propose(self, sequence, gamma, randomness):
        self._proposer = None
        for draft, controller in self._drafters:
            most = min(gamma, controller.gamma())
            proposal = (yield from proposed(draft, sequence, most, randomness)) if most else None
            if proposal and proposal.tokens:
                self._proposer = controller
                return proposal
        return Proposal()


@pytest.mark.parametrize("mistake", [NeverDecays, AllObserve, ModelFirst, LookupAlways])
def test_another_way_to_take_turns_is_found(native_large, large, monkeypatch, mistake):
    monkeypatch.setattr(registry, "AlternatingDrafter", mistake)
    assert any(
        librarys_texts(native_large, large, "both", given) != pythons_texts(large, "both", given)
        for given in WAYS
    )


def test_by_default_both_draft(native_tiny, tiny):
    session, prompt = native_tiny.session(), prompts(tiny.target.vocab_size)[1]
    given = {"temperature": 1.0, "rule": "token", "gamma": 4, "seed": 1, "ignore_eos": 1}
    by_default, both, model = (
        (session.text(prompt, **given, **draft), session.rounds)
        for draft in ({}, {"draft": 3}, {"draft": 1})
    )
    assert by_default == both != model
