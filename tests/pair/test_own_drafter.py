"""Claim: a caller's drafter changes no text; one that breaks the protocol is one sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest

import edgespec
from depth import one_in
from edgespec.core.decode import Round
from edgespec.core.distribution import Distribution, one_hot
from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate
from edgespec.core.requests import Score
from edgespec.drafters.registry import OWN_DRAFT_COST, own_costs
from edgespec.errors import EdgespecError
from hashed_model import HashedModel, hashed_pair

PROMPT = [70, 71, 72]
ENGLISH = "You can change the size of the window."
SIZE = 272
SAMPLINGS = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 1.0, "seed": 3, "rule": "token"}]
HALVES = np.array([0.5, 0.5])


@pytest.fixture
def hashed(tiny):
    assert tiny.target.vocab_size == SIZE
    return hashed_pair(tiny, HashedModel(SIZE, 5), HashedModel(SIZE, 5, noise=0.1))


class Own:
    """A drafter whose `propose` is given."""

    seconds = 0.0

    def __init__(self, propose):
        self._propose = propose

    def begin(self, prompt):
        pass

    def propose(self, text, gamma, randomness):
        return self._propose(text, gamma, randomness)


def q_of(tokens, probabilities):
    return Distribution(np.asarray(tokens), np.asarray(probabilities))


def proposes(*arguments, **named):
    return lambda text, gamma, randomness: edgespec.Proposal(*arguments, **named)


def raising(error):
    def propose(text, gamma, randomness):
        raise error

    return propose


def requesting(*requests):
    def propose(text, gamma, randomness):
        yield from requests
        return edgespec.Proposal()

    return propose


def raising_later(text, gamma, randomness):
    yield from ()
    raise KeyError("lost")


BROKEN = {
    "nothing": (lambda *_: None, "proposes None; return an edgespec.Proposal"),
    "a list": (lambda *_: [1, 2], "proposes [1, 2]; return"),
    "a token beyond": (proposes([SIZE], [one_hot(SIZE)]), "the token 272; give ids from 0 to 271"),
    "a negative token": (proposes([-1], [one_hot(-1)]), "the token -1; give ids"),
    "a float": (proposes([1.5], [one_hot(1)]), "the token 1.5; give ids"),
    "a text": (proposes(["a"], [one_hot(1)]), "the token 'a'; give ids"),
    "a flag": (proposes([True], [one_hot(1)]), "the token True; give ids"),
    "no number of tokens": (proposes(7, [one_hot(7)]), "raised TypeError"),
    "no q": (proposes([7], []), "proposes 1 tokens with 0 distributions; give one q"),
    "too many q": (proposes([7], [one_hot(7)] * 2), "1 tokens with 2 distributions"),
    "q of another type": (proposes([7], [HALVES]), "as a q; give an edgespec.core Distribution"),
    "q without tokens": (proposes([7], [q_of([], [])]), "gives a q of shapes (0,) and (0,)"),
    "q of two lengths": (proposes([7], [q_of([7], HALVES)]), "of shapes (1,) and (2,)"),
    "q of a matrix": (proposes([7], [q_of([[7]], [[1.0]])]), "of shapes (1, 1) and (1, 1)"),
    "q that does not increase": (proposes([7], [q_of([8, 7], HALVES)]), "q of wrong tokens"),
    "q with a token twice": (proposes([7], [q_of([7, 7], HALVES)]), "q of wrong tokens"),
    "q beyond": (proposes([7], [q_of([7, SIZE], HALVES)]), "q of wrong tokens; give increasing"),
    "q of floats": (proposes([7], [q_of([7.0, 8.0], HALVES)]), "q of wrong tokens"),
    "q of NaN": (proposes([7], [q_of([7, 8], [np.nan, 1])]), "whose sum is nan"),
    "q of infinity": (proposes([7], [q_of([7, 8], [np.inf, 1])]), "whose sum is inf"),
    "negative q": (proposes([7], [q_of([7, 8], [1.5, -0.5])]), "least probability is -0.5"),
    "q above one": (proposes([7], [q_of([7, 8], [1.0, 1.0])]), "whose sum is 2"),
    "q of texts": (proposes([7], [q_of([7], ["x"])]), "raised"),
    "a candidate that is none": (proposes([7], [one_hot(7)], [3]), "raised TypeError"),
    "a candidate beyond": (proposes([7], [one_hot(7)], [Candidate(0, 999)]), "the token 999"),
    "a candidate nowhere": (proposes([7], [one_hot(7)], [("x", 7)]), "a candidate after 'x'"),
    "an exception": (raising(ValueError("bad\nluck")), "raised ValueError ('bad\\nluck')"),
    "an assertion": (raising(AssertionError()), "raised AssertionError"),
    "a late exception": (raising_later, "raised KeyError"),
    "asks for a round": (requesting(Round([7], 0, 0, 0, None)), "asks for Round("),
    "asks for a number": (requesting(3), "asks for 3; yield Prefill, Score, TopScore"),
    "moves the randomness": (lambda text, gamma, draws: draws.at(3), "draw from what propose is"),
    "a weight that is no number": (
        lambda text, gamma, draws: draws.categorical(q_of([1, 2], ["a", "b"]), 0),
        "raised",
    ),
}


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "coupled", "token rule"])
@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_protocol_is_one_sentence(hashed, name, sampling):
    propose, reason = BROKEN[name]
    options = {"draft": Own(propose), "gamma": 2, "max_new_tokens": 20, **sampling}
    with pytest.raises(EdgespecError, match=re.escape(reason)) as raised:
        hashed.generate(PROMPT, **options)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400
    # The pair is free again, and its text is its own.
    assert hashed.generate(PROMPT, max_new_tokens=5).token_ids


class NoBegin:
    seconds = 0.0

    def propose(self, text, gamma, randomness):
        return edgespec.Proposal()


class NoSeconds(Own):
    seconds = property(lambda self: 1 / 0)


class OddSeconds(Own):
    seconds = "long"


class FailsToBegin(Own):
    def begin(self, prompt):
        raise OSError("no file")


@pytest.mark.parametrize(
    ("drafter", "reason"),
    [
        (NoBegin(), "the drafter NoBegin has no method begin"),
        (NoSeconds(None), "the drafter NoSeconds raised ZeroDivisionError"),
        (OddSeconds(None), "has the seconds 'long'; give a number from 0"),
        (FailsToBegin(None), "the drafter FailsToBegin raised OSError ('no file')"),
        (Own("no function"), "the drafter Own raised TypeError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_drafter_without_its_methods_is_one_sentence(hashed, drafter, reason):
    with pytest.raises(EdgespecError, match=re.escape(reason)):
        hashed.generate(PROMPT, draft=drafter, gamma=2, max_new_tokens=9)


# --- what is odd and harmless ---------------------------------------------------------------------


def rewriting(text, gamma, randomness):
    """Changes the list that it was given."""
    text[:] = [9] * len(text)
    return edgespec.Proposal([9] * gamma, [one_hot(9)] * gamma)


def offering_more(text, gamma, randomness):
    """More tokens than it was asked for, as numpy's own numbers."""
    tokens = np.full(gamma + 9, 5, np.uint16)
    return edgespec.Proposal(tokens, [one_hot(5)] * (gamma + 9))


def late(text, gamma, randomness):
    """A generator that asks for a model's call first."""
    model = HashedModel(SIZE, 5)
    model.prefill([*text])
    row = yield Score(model, [text[-1]])
    token = int(row[0].argmax())
    return edgespec.Proposal([token], [one_hot(token)])


def drawing(text, gamma, randomness):
    """Draws more than it proposes."""
    q = q_of(np.arange(SIZE), np.full(SIZE, 1 / SIZE))
    tokens = [randomness.categorical(q, ahead) for ahead in range(gamma)]
    assert randomness.bernoulli(1.0)
    return edgespec.Proposal(tokens[:1], [q])


HARMLESS = [rewriting, offering_more, late, drawing, lambda *_: edgespec.Proposal()]


@pytest.mark.parametrize("sampling", SAMPLINGS[:2], ids=["greedy", "coupled"])
@pytest.mark.parametrize("propose", HARMLESS)
@pytest.mark.parametrize("gamma", [3, "auto"])
def test_what_is_odd_changes_no_text(hashed, propose, gamma, sampling):
    options = {"max_new_tokens": 30, "logprobs": True, **sampling}
    alone = hashed.generate(PROMPT, draft=False, **options)
    drafted = hashed.generate(PROMPT, draft=Own(propose), gamma=gamma, **options)
    assert drafted.token_ids == alone.token_ids
    assert drafted.logprobs == alone.logprobs


class Damaged(HashedModel):
    """A draft model whose rows after some tokens are infinite, or not numbers."""

    def _row(self, key):
        row = super()._row(key)
        return row if sum(key) % 3 else np.full_like(row, [np.nan, np.inf, -np.inf][len(key) % 3])


@pytest.mark.parametrize("sampling", SAMPLINGS[:2], ids=["greedy", "coupled"])
@pytest.mark.parametrize("top", [False, True])
def test_a_damaged_draft_model_changes_no_text(tiny, sampling, top):
    draft = Damaged(SIZE, 5, returns_top_tokens=top)
    hashed = hashed_pair(tiny, HashedModel(SIZE, 5), draft)
    options = {"max_new_tokens": 40, "ignore_eos": True, **sampling}
    alone = hashed.generate(PROMPT, draft=False, **options)
    drafted = hashed.generate(PROMPT, draft="model", gamma=3, **options)
    assert drafted.token_ids == alone.token_ids
    assert drafted.stats.accepted > 0


class Wild:
    """A caller's own drafter: any tokens, some drawn from a wide distribution."""

    seconds = 0.0

    def __init__(self, width: int) -> None:
        self._distribution = Distribution(np.arange(width), np.full(width, 1 / width))

    def begin(self, prompt) -> None:
        self.started = list(prompt)

    def propose(self, text, gamma, randomness) -> Proposal:
        tokens = [randomness.categorical(self._distribution, ahead) for ahead in range(gamma)]
        return Proposal(tokens, [self._distribution] * gamma)


@pytest.mark.parametrize("gamma", [3, "auto"])
def test_with_a_draft_of_the_callers_own_the_greedy_text_is_the_targets(pair, gamma):
    wild = Wild(40)
    result = pair.generate(ENGLISH, draft=wild, gamma=gamma)
    assert result.token_ids == pair.generate(ENGLISH, draft=False).token_ids
    assert wild.started == pair.encode(ENGLISH)
    # With γ auto the clock decides whether a draft is asked at all.
    assert gamma == "auto" or result.stats.drafted > 0


@one_in(3)
@pytest.mark.parametrize("cost", [None, 0.0, 0.05, 5.0])
def test_a_callers_drafter_is_not_free_unless_it_says_so(pair, cost):
    """What it costs decides how often it is asked, never the greedy text."""
    wild = Wild(40)
    if cost is not None:
        wild.cost = cost
    result = pair.generate(ENGLISH, draft=wild, ignore_eos=True, max_new_tokens=60)
    plain = pair.generate(ENGLISH, draft=False, ignore_eos=True, max_new_tokens=60)
    assert result.token_ids == plain.token_ids
    costs = own_costs(wild, pair.costs["lookup"])
    assert costs.draft == (OWN_DRAFT_COST if cost is None else cost)
    if cost == 5.0:  # more than any acceptance brings back
        assert result.stats.drafted == 0


def test_a_callers_drafter_that_costs_more_drafts_less(pair):
    drafted = []
    for cost in (0.0, 0.3, 0.9):
        wild = Wild(40)
        wild.cost = cost
        options = {"draft": wild, "ignore_eos": True, "max_new_tokens": 60}
        drafted.append(pair.generate(ENGLISH, **options).stats.drafted)
    assert drafted == sorted(drafted, reverse=True)
    assert drafted[0] > drafted[-1]


@one_in(2)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_a_seed_draws_the_same_text_again_with_a_callers_drafter(pair, temperature):
    options = {"seed": 5, "temperature": temperature, "max_new_tokens": 40, "ignore_eos": True}
    options |= {"gamma": 3}  # no clock has a say
    first, second = (pair.generate(ENGLISH, draft=Wild(40), **options) for _ in range(2))
    assert first.token_ids == second.token_ids
    assert first.stats.drafted == second.stats.drafted


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "cheap", None])
def test_an_impossible_cost_is_refused(pair, cost):
    wild = Wild(40)
    wild.cost = cost
    with pytest.raises(edgespec.UsageError, match=r"the drafter's cost is .* a number from 0"):
        pair.stream(ENGLISH, draft=wild)


@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_draft_whose_distribution_lacks_its_own_token_is_refused(pair, rule):
    class Untrue(Wild):
        def propose(self, text, gamma, randomness) -> Proposal:
            return Proposal([9], [Distribution(np.array([3, 4]), np.array([0.5, 0.5]))])

    with pytest.raises(
        EdgespecError, match="proposed token 9, to which its distribution q gives probability 0"
    ):
        pair.generate(ENGLISH, draft=Untrue(40), temperature=1.0, rule=rule)


class Rash(Wild):
    """Offers more than it is asked for."""

    def propose(self, text, gamma, randomness) -> Proposal:
        return super().propose(text, 30, randomness)


def test_a_draft_that_offers_more_than_it_is_asked_for_is_cut(pair):
    plain = pair.generate(ENGLISH, draft=False, max_new_tokens=7)
    result = pair.generate(ENGLISH, draft=Rash(40), gamma=2, max_new_tokens=7)
    assert result.token_ids == plain.token_ids
    assert max(time.drafted for time in result.stats.rounds) == 2


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        ({}, ("both", "fp32", "cpu", "auto", "token")),
        ({"draft": False}, ("none", None, None, None, None)),
        ({"draft": "lookup", "gamma": 4}, ("lookup", None, None, 4, "token")),
        ({"draft": "model", "temperature": 1.0}, ("model", "fp32", "cpu", "auto", "coupled")),
        ({"draft": False, "temperature": 1.0}, ("none", None, None, None, "coupled")),
        ({"draft": False, "temperature": 1.0, "rule": "block"}, ("none", None, None, None, None)),
        ({"draft": Wild(40), "rule": "block"}, ("Wild", None, None, "auto", "block")),
    ],
    ids=["usual", "plain", "lookup", "sampled", "sampled plainly", "block plainly", "own"],
)
def test_a_result_names_its_settings(pair, asked, ran):
    settings = pair.generate(ENGLISH, max_new_tokens=3, **asked).settings
    assert settings == edgespec.Settings("fp32", "cpu", *ran)
