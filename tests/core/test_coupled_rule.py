"""Claim: with the coupled rule a text is plain decoding's, token by token, with p's distribution.

Every noise of every position is walked in rational arithmetic. Two things are asserted for each
drafter: in every branch the loop's text is the text of `plain` with the same noise; and the
distribution over all branches is, as fractions, the product of the target's conditionals. Mutants
of the rule and of the noise must fail.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import accumulate

import pytest
from test_exact_distribution import (
    END,
    PAIRS,
    PROMPT,
    arg_max,
    never,
    pair_distributions,
    target_distribution,
)

from branches import NoiseTable, exact_distribution
from candidate_drafter import WithCandidates
from depth import one_in
from edgespec.core.decode import decoded, plain, speculate
from edgespec.core.distribution import one_hot
from edgespec.core.verification import (
    VerificationResult,
    block_rule,
    coupled_rule,
    residual,
    token_rule,
)
from edgespec.costs.controller import Adaptive, Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.alternating import AlternatingDrafter
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.drafters.vocabulary_map import SharedTokens
from tables import (
    BlockTable,
    BranchingTable,
    ReadingTable,
    TableModel,
    as_distribution,
    fractions,
    varying,
)

LENGTH = 3
COSTS = Costs(verify=[1, 1.1, 1.2, 1.3], draft=0.2)


def cuts(pair):
    """All cumulative probabilities of a pair's distributions."""
    return [cut for rows in PAIRS[pair] for row in rows for cut in accumulate(row)]


def adaptive():
    return Adaptive(COSTS, guess=0.5, memory=0.5)


def model(q, target, process=as_distribution, **options):
    return ModelDrafter(TableModel(q), process, SharedTokens(3), **options)


def eagle(q, target):
    return ModelDrafter(ReadingTable(q, target), as_distribution, SharedTokens(3))


def block(q, target):
    return ModelDrafter(BlockTable(q, target), as_distribution, SharedTokens(3))


def candidates(q, target):
    return WithCandidates(TableModel(q), as_distribution, SharedTokens(3))


def lookup(q, target):
    return SuffixLookup()


def alternating(q, target):
    return AlternatingDrafter([(lookup(q, target), adaptive()), (model(q, target), adaptive())])


DRAFTERS = {
    "model": model,
    "its arg-max": partial(model, process=arg_max),
    "stops where unsure": partial(model, should_continue=lambda chance, rows: chance > 0.4),
    "eagle": eagle,
    "block": block,
    "candidates": candidates,
    "lookup": lookup,
    "alternating": alternating,
}


def walked(pair, make_draft, *, rule=coupled_rule, gamma=None, ends=never, noise=NoiseTable):
    """(The distribution of the loop's text; whether every text was that of plain decoding.)"""
    p, q = pair_distributions(pair)
    same = True

    def run(randomness):
        nonlocal same
        target = BranchingTable(p)
        draft = make_draft(q, target)
        common = {"process": as_distribution, "randomness": randomness, "ends": ends}
        common["max_new_tokens"] = LENGTH
        rounds = decoded(
            speculate(
                target,
                draft,
                PROMPT,
                rule=rule,
                gamma=draft if gamma is None else gamma,
                **common,
            )
        )
        text = tuple(token for round_ in rounds for token in round_.tokens)
        alone = tuple(r.tokens[0] for r in decoded(plain(TableModel(p), PROMPT, **common)))
        same = same and text == alone
        return text

    return exact_distribution(run, lambda script: noise(script, cuts(pair))), same


@one_in(2)
@pytest.mark.parametrize("gamma", [0, 1, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_every_text_is_plain_decodings_and_has_the_targets_distribution(pair, gamma):
    found, same = walked(pair, model, gamma=Fixed(gamma))
    assert same
    assert found == target_distribution(pair_distributions(pair)[0], LENGTH)


@one_in(2)
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("pair", ["far", "zeros in the draft", "disjoint"])
def test_every_drafter_leaves_the_text_as_it_is(pair, drafter):
    gamma = None if drafter == "alternating" else Fixed(2)
    found, same = walked(pair, DRAFTERS[drafter], gamma=gamma)
    assert same
    assert found == target_distribution(pair_distributions(pair)[0], LENGTH)


@one_in(2)
@pytest.mark.parametrize("drafter", ["model", "candidates"])
@pytest.mark.parametrize("pair", ["close", "far"])
def test_a_text_that_ends_early_is_plain_decodings(pair, drafter):
    found, same = walked(pair, DRAFTERS[drafter], gamma=Fixed(3), ends=END.__eq__)
    assert same
    assert found == target_distribution(pair_distributions(pair)[0], LENGTH, END.__eq__)


def test_the_drafts_reported_distribution_is_not_looked_at():
    """So a caller's drafter that is mistaken about its q changes the speed only."""

    class Mistaken(ModelDrafter):
        def propose(self, text, gamma, randomness):
            proposal = yield from super().propose(text, gamma, randomness)
            wrong = [one_hot((token + 1) % 3) for token in proposal.tokens]
            return type(proposal)(proposal.tokens, wrong)

    def make(q, target):
        return Mistaken(TableModel(q), as_distribution, SharedTokens(3))

    found, same = walked("far", make, gamma=Fixed(2))
    assert same
    assert found == target_distribution(pair_distributions("far")[0], LENGTH)


def first_round(p_row, q_row):
    """The probability that a drafted token is accepted, over all noise of its position."""
    p, q = (varying([fractions(*weights)]) for weights in (p_row, q_row))

    def run(randomness):
        rounds = decoded(
            speculate(
                TableModel(p),
                model(q, None),
                PROMPT,
                process=as_distribution,
                rule=coupled_rule,
                gamma=Fixed(1),
                randomness=randomness,
                max_new_tokens=2,
                ends=never,
            )
        )
        return next(rounds).accepted

    points = [*accumulate(p(())), *accumulate(q(()))]
    return exact_distribution(run, lambda script: NoiseTable(script, points)).get(1, 0)


def test_a_draft_equal_to_the_target_is_always_accepted():
    assert first_round((5, 3, 2), (5, 3, 2)) == 1


def test_a_draft_with_another_distribution_is_accepted_where_both_choose_the_same():
    """[0, .4) both choose 0, [.5, .7) both 1, [.8, 1) both 2."""
    assert first_round((5, 3, 2), (4, 3, 3)) == Fraction(8, 10)


# --- mutants -----------------------------------------------------------------------------------


class SharedByTwoPositions(NoiseTable):
    """Mutant: two positions have the same noise."""

    def position(self, ahead):
        return super().position(ahead) // 2


class ByRound(NoiseTable):
    """Mutant: all tokens of a round have the same noise."""

    def position(self, ahead):
        return self._emitted


@pytest.mark.parametrize("noise", [SharedByTwoPositions, ByRound])
def test_noise_that_two_positions_share_is_caught(noise):
    found, _ = walked("close", model, gamma=Fixed(2), noise=noise)
    assert found != target_distribution(pair_distributions("close")[0], LENGTH)


def corrects_from_the_residual(proposal, p, randomness):
    """Mutant: the correction is drawn from the residual, with the noise of the rejected token."""
    result = coupled_rule(proposal, p, randomness)
    i = result.accepted
    if i == len(proposal.tokens):
        return result
    return VerificationResult(i, result.evaluated, residual(p[i], proposal.q[i]))


def takes_the_drafts_other_choice(proposal, p, randomness):
    """Mutant: a candidate is taken because the draft prefers it, not because the target does."""
    result = coupled_rule(proposal, p, randomness)
    others = [c.token for c in proposal.candidates if c.parent == result.accepted]
    possible = [token for token in others if p[result.accepted].of(token)]
    if result.accepted == len(proposal.tokens) or not possible:
        return result
    return VerificationResult(result.accepted, result.evaluated, one_hot(possible[0]))


def accepts_what_is_possible(proposal, p, randomness):
    """Mutant: accepts a token that the target could have chosen."""
    for i, token in enumerate(proposal.tokens):
        if not p[i].of(token):
            return VerificationResult(i, i + 1, p[i])
    return VerificationResult(len(proposal.tokens), len(proposal.tokens), p[len(proposal.tokens)])


@pytest.mark.parametrize(
    "rule",
    [
        corrects_from_the_residual,
        takes_the_drafts_other_choice,
        accepts_what_is_possible,
    ],
    ids=lambda rule: rule.__name__,
)
def test_a_wrong_rule_is_caught(rule):
    found, same = walked("far", candidates, gamma=Fixed(2), rule=rule)
    assert not same
    assert found != target_distribution(pair_distributions("far")[0], LENGTH)


@pytest.mark.parametrize("rule", [token_rule, block_rule])
def test_the_other_rules_give_other_texts(rule):
    _, same = walked("far", model, gamma=Fixed(2), rule=rule)
    assert not same


class ContinuesElsewhere(BranchingTable):
    """Mutant: after a candidate, returns the distribution after the drafted token it replaces."""

    def score(self, tokens, candidates=()):
        rows = super().score(tokens, candidates)
        for row, (parent, _) in enumerate(candidates, start=len(tokens)):
            rows[row] = rows[parent + 1]
        return rows


def test_a_wrong_row_after_a_candidate_is_caught(monkeypatch):
    monkeypatch.setitem(globals(), "BranchingTable", ContinuesElsewhere)
    found, same = walked("far", candidates, gamma=Fixed(2))
    assert not same
    assert found != target_distribution(pair_distributions("far")[0], LENGTH)
