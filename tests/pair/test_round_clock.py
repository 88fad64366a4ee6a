"""Claim: γ "auto" follows the clock where text does not depend on γ, which it never changes."""

from __future__ import annotations

import random

import pytest

import edgespec
from depth import DEEP
from edgespec.costs.cost_model import Costs
from edgespec.drafters.registry import DRAFTER_NAMES, costs_by_name
from edgespec.pair.round_clock import RoundClock

PROMPTS = ["The file could not be opened.", "a b a b a b a b a", "GNU C compiler"]
SAMPLED = {"temperature": 0.9, "top_p": 0.95, "seed": 5}


class RandomClock:
    """Passes between 1 ns and 10 s at each look, so that every switch is thrown sometimes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 10 ** self._random.uniform(-9, 1)
        return self._now


@pytest.fixture
def own(tiny_folder):
    """A pair whose clock nobody has used, with the guesses of a large one: drafting pays."""
    pair = edgespec.load(tiny_folder, threads=1)
    costs = Costs([1 + 0.02 * gamma for gamma in range(17)], draft=0.02)
    pair.drafting.clock = RoundClock(costs_by_name(costs), pair.draft)
    return pair


def drafted(stats: edgespec.Stats) -> list[int]:
    return [round_.drafted for round_ in stats.rounds]


@pytest.mark.parametrize("draft", DRAFTER_NAMES)
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "coupled"])
def test_whatever_the_clock_says_the_text_is_the_plain_one(own, sampling, draft):
    options = {"max_new_tokens": 60, "ignore_eos": True, **sampling}
    different_drafts = set()
    for seed in range(12 if DEEP else 3):
        own.drafting.clock.clock = RandomClock(seed)
        for prompt in PROMPTS:
            plain = own.generate(prompt, draft=False, **options)
            made = own.generate(prompt, draft=draft, **options)
            assert made.token_ids == plain.token_ids
            different_drafts.add((prompt, *drafted(made.stats)))
    assert len(different_drafts) > len(PROMPTS), "the clock decided nothing"


def test_without_a_clock_the_costs_alone_decide(own):
    def rounds() -> list[int]:
        made = own.generate("a b a b a b a b a", max_new_tokens=60, ignore_eos=True)
        return drafted(made.stats)

    own.use_costs(dict(own.costs))
    assert own.drafting.clock is None
    assert rounds() == rounds()


@pytest.mark.parametrize("rule", ["token", "block"])
def test_the_clock_has_no_say_where_text_depends_on_gamma(own, rule):
    """Otherwise a seed would draw another text when the machine is busy."""
    options = {"max_new_tokens": 60, "ignore_eos": True, "rule": rule, **SAMPLED}
    texts, rounds = set(), set()
    for seed in range(6):
        own.drafting.clock.clock = RandomClock(seed)
        own.generate(PROMPTS[0], max_new_tokens=60)  # greedy: the clock learns
        made = own.generate(PROMPTS[0], **options)
        texts.add(tuple(made.token_ids))
        rounds.add(tuple(drafted(made.stats)))
    assert len(texts) == len(rounds) == 1


def test_times_are_kept_from_text_to_text(own):
    before = own.drafting.clock.costs["lookup"].now()
    for prompt in PROMPTS:
        own.generate(prompt, max_new_tokens=60, ignore_eos=True)
    assert own.drafting.clock.costs["lookup"].now() != before
