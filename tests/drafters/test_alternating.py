"""Claim: of two drafters, each is judged by its own acceptance rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal, proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.costs.controller import Adaptive, Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.alternating import AlternatingDrafter

COSTS = Costs([1 + 0.05 * extra for extra in range(17)], draft=0.0)


class Source:
    """Proposes up to `most` copies of one token and counts its calls."""

    def __init__(self, token: int, most: int = 16, probability: float = 1.0) -> None:
        self.token, self.most, self.probability = token, most, probability
        self.seconds = 1.0
        self.asked = self.started = 0

    def begin(self, prompt: Any) -> None:
        self.started += 1

    def propose(self, text: Any, gamma: int, randomness: Any) -> Proposal:
        self.asked += 1
        tokens = [self.token] * min(gamma, self.most)
        return Proposal(tokens, [one_hot(self.token) for _ in tokens])


def drive(
    alternating: AlternatingDrafter, sources: list[Source], rounds: int, seed: int = 0
) -> list[int]:
    """Runs rounds with each drafter's acceptance rate; returns which one drafted (-1: none)."""
    generator = np.random.default_rng(seed)
    drafted = []
    for _ in range(rounds):
        proposal = computed(proposed(alternating, [1], alternating.gamma(), Seeded(0)))
        tokens = list(proposal.tokens)
        drafted.append(tokens[0] if tokens else -1)
        probability = sources[tokens[0]].probability if tokens else 0.0
        accepted = 0
        while accepted < len(tokens) and generator.random() < probability:
            accepted += 1
        alternating.observe(len(tokens), min(accepted + 1, len(tokens)), accepted, 0)
    return drafted


def adaptive(*sources: Source, costs: Costs = COSTS) -> AlternatingDrafter:
    return AlternatingDrafter([(source, Adaptive(costs)) for source in sources])


def test_every_drafter_begins_each_text_and_times_add_up():
    sources = [Source(0), Source(1)]
    alternating = adaptive(*sources)
    alternating.begin([1, 2])
    assert [source.started for source in sources] == [1, 1]
    assert alternating.seconds == 2.0


def test_the_better_drafter_is_used():
    sources = [Source(0, probability=0.2), Source(1, probability=0.9)]
    drafted = drive(adaptive(*sources), sources, 400)
    assert drafted[0] == 0, "of equal promise, the first comes first"
    assert drafted[50:].count(1) > 0.9 * 350


def test_where_one_has_no_proposal_the_other_drafts():
    sources = [Source(0, most=0, probability=0.9), Source(1, probability=0.5)]
    assert set(drive(adaptive(*sources), sources, 20)) == {1}


def test_a_bad_drafter_does_not_switch_a_good_one_off():
    """A common acceptance rate would be 0.45, at which these costs would not draft at all."""
    costs = Costs([1 + 0.35 * extra for extra in range(17)], draft=0.0)
    sources = [Source(0, probability=0.0), Source(1, probability=0.9)]
    drafted = drive(adaptive(*sources, costs=costs), sources, 400)
    assert drafted.count(1) > 350


def test_an_unused_drafter_is_tried_again():
    sources = [Source(0, probability=0.0), Source(1, probability=0.6)]
    alternating = adaptive(*sources)
    drive(alternating, sources, 100)
    sources[0].probability = 1.0
    assert drive(alternating, sources, 200)[100:].count(0) > 90


@pytest.mark.parametrize("slope", [0.02, 0.1, 0.4])
def test_two_hopeless_drafters_cost_at_most_3_percent(slope):
    costs = Costs([1 + slope * extra for extra in range(17)], draft=0.1)
    sources = [Source(0, probability=0.0), Source(1, probability=0.0)]
    alternating = adaptive(*sources, costs=costs)
    cost = 0.0
    for _ in range(200):
        proposal = computed(proposed(alternating, [1], alternating.gamma(), Seeded(0)))
        cost += costs.round(len(proposal.tokens))
        alternating.observe(len(proposal.tokens), min(1, len(proposal.tokens)), 0, 0)
    assert cost <= 1.03 * 200


def test_with_a_fixed_gamma_the_order_decides():
    sources = [Source(0, most=2, probability=0.0), Source(1, probability=1.0)]
    alternating = AlternatingDrafter([(source, Fixed(3)) for source in sources])
    assert set(drive(alternating, sources, 20)) == {0}
    assert len(computed(proposed(alternating, [1], 3, Seeded(0))).tokens) == 2
