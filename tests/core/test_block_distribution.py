"""Claim: a block draft that ends by its confidence leaves the text its target's distribution.

As in `test_exact_distribution.py`, every random branch of the shipped loop and of the shipped
drafter is walked in fractions. Known mistakes must be caught.
"""

from __future__ import annotations

import pytest
from test_exact_distribution import (
    PROMPT,
    RULES,
    never,
    pair_distributions,
    target_distribution,
)

from branches import exact_distribution
from depth import one_in
from edgespec.core.decode import decoded, speculate
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Seeded
from edgespec.costs.controller import Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.registry import DRAFTERS, DrafterSetup
from edgespec.drafters.vocabulary_map import SharedTokens
from tables import BlockTable, TableModel, as_distribution

# Other tests run these lines too; counting them here would double the time of each pass.
pytestmark = pytest.mark.no_cover

LENGTH = 4
COSTS = Costs(verify=[1, 1.1, 1.2, 1.3], draft=0.01)


def shipped(q, target, gamma):
    """The drafter and the controller of a pair's block draft."""
    setup = DrafterSetup(
        target, BlockTable(q, target), SharedTokens(3), as_distribution, gamma, {"model": COSTS}
    )
    return DRAFTERS["model"].build(setup)


def of(mutant):
    def make(q, target, gamma):
        return mutant(BlockTable(q, target), as_distribution, SharedTokens(3)), Fixed(gamma)

    return make


def rounds_of(pair, rule, randomness, make_draft, gamma, length=LENGTH):
    p, q = pair_distributions(pair)
    target = TableModel(p)
    draft, controller = make_draft(q, target, gamma)
    return decoded(
        speculate(
            target,
            draft,
            PROMPT,
            process=as_distribution,
            rule=RULES[rule],
            gamma=controller,
            randomness=randomness,
            max_new_tokens=length,
            ends=never,
        )
    )


def distributions(pair, rule, make_draft=shipped, gamma="auto", length=LENGTH):
    """Of the loop's texts, and of the target's."""

    def run(randomness):
        rounds = rounds_of(pair, rule, randomness, make_draft, gamma, length)
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run), target_distribution(pair_distributions(pair)[0], length)


@one_in(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 3, "auto"])
@pytest.mark.parametrize("pair", ["close", "far", "zeros in the draft", "disjoint"])
def test_text_has_the_targets_distribution(pair, gamma, rule):
    found, expected = distributions(pair, rule, gamma=gamma)
    assert found == expected


def drafted(gamma):
    """The numbers of tokens that rounds with room for three drafted."""
    return {
        round_.drafted
        for seed in range(30)
        for number, round_ in enumerate(rounds_of("close", "token", Seeded(seed), shipped, gamma))
        if number == 0
    }


def test_a_draft_ends_where_it_is_not_confident():
    assert drafted(3) == {BlockTable.block}
    assert min(drafted("auto")) < BlockTable.block


def test_a_draft_ends_with_its_block(monkeypatch):
    monkeypatch.setattr(BlockTable, "block", 2)
    assert drafted(3) == {2}


class EndsAfterTheDraw(ModelDrafter):
    """Mutant: looks at each drawn token before it decides whether to propose it."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        sure = [q.of(token) >= 0.5 for token, q in zip(proposal.tokens, proposal.q, strict=True)]
        return proposal.first(([*sure, False]).index(False))


class WrongPosition(ModelDrafter):
    """Mutant: reports for each token the distribution of the token before it."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        return Proposal(proposal.tokens, [*proposal.q[:1], *proposal.q[:-1]])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mutant", [EndsAfterTheDraw, WrongPosition])
def test_a_mistaken_draft_is_caught(mutant, rule):
    found, expected = distributions("far", rule, of(mutant), gamma=3, length=3)  # of few branches
    assert found != expected
