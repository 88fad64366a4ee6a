"""Claim: γ "auto" goes by what rounds take on this machine now.

A machine with a clock of its own runs rounds of stated durations. A slow draft is dropped within 10
rounds, a fast one taken up again, a wrong guess costs little, and spikes change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from edgespec.costs.controller import Adaptive, Confident
from edgespec.costs.cost_model import Costs
from edgespec.costs.measured_costs import DraftingTimes, MeasuredCosts, Timed, VerificationTimes
from edgespec.costs.time_curve import TimeCurve

STEP = 0.005  # seconds
FAST = Costs([1 + 0.03 * m for m in range(17)], draft=0.08)
STEEP = Costs([1 + 0.5 * m for m in range(17)], draft=0.08)
SLOW_DRAFT = Costs(FAST.verify, draft=1.5)
FLAT_THEN_STEEP = Costs(
    [1, 1.05, 1.2, 1.4, 1.6, *(1.6 + 0.27 * m for m in range(1, 13))], draft=0.12
)  # as AVX2 has it
FREE = Costs(FAST.verify, draft=0.0)


@dataclass
class Machine:
    """A target and a draft with stated costs, and the clock that they move."""

    costs: Costs
    acceptance: float
    length: int = 0
    seconds: float = 0.0  # in the draft
    now: float = 0.0
    tokens: int = 0
    drafted: list[int] = field(default_factory=list)
    spike: float = 0.0  # probability that a round takes 20 steps more
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self.prompt = 10 * STEP  # that the draft reads before its first token of a text

    def clock(self) -> float:
        return self.now

    def round(self, timed: Timed) -> None:
        gamma = timed.gamma()
        drafting = gamma * self.costs.draft * STEP
        if gamma:
            drafting, self.prompt = drafting + self.prompt, 0.0
        self.seconds += drafting
        late = 20 * STEP * (self.generator.random() < self.spike)
        self.now += drafting + self.costs.verify[gamma] * STEP + late
        accepted = 0
        while accepted < gamma and self.generator.random() < self.acceptance:
            accepted += 1
        timed.observe(gamma, min(accepted + 1, gamma), accepted, 0)
        self.length += accepted + 1
        self.tokens += accepted + 1
        self.drafted.append(gamma)


def timed_on(machine: Machine, guess: Costs, adaptive: type[Adaptive] = Adaptive) -> Timed:
    """A controller that goes by the machine's clock and has this guess."""
    verification = VerificationTimes(Costs(guess.verify, 0.0))
    drafting = DraftingTimes(machine, guess, Costs(guess.verify, 0.0))
    chooser = adaptive(MeasuredCosts(guess, verification, drafting))
    return Timed(chooser, machine, verification, drafting, machine.clock)


def speedup(machine: Machine) -> float:
    return machine.tokens * STEP / machine.now


@pytest.mark.parametrize("adaptive", [Adaptive, Confident])
def test_a_slow_draft_is_dropped_within_10_rounds(adaptive):
    machine = Machine(SLOW_DRAFT, acceptance=0.8)
    timed = timed_on(machine, FAST, adaptive)
    for _ in range(200):
        machine.round(timed)
    assert sum(machine.drafted[:10]) > 0
    assert machine.drafted[10:].count(0) >= 188, "two more tries, perhaps"


def test_a_draft_that_became_fast_is_taken_up_again():
    machine = Machine(SLOW_DRAFT, acceptance=0.8)
    timed = timed_on(machine, FAST)
    for _ in range(50):
        machine.round(timed)
    assert machine.drafted[-1] == 0
    machine.costs = FAST
    for _ in range(700):
        machine.round(timed)
    assert min(machine.drafted[-10:]) >= 3


@pytest.mark.parametrize(
    ("truth", "acceptance"),
    [(SLOW_DRAFT, 0.5), (SLOW_DRAFT, 0.0), (STEEP, 0.0), (FLAT_THEN_STEEP, 0.0), (FAST, 0.0)],
)
@pytest.mark.parametrize("adaptive", [Adaptive, Confident])
def test_a_draft_that_does_not_pay_is_tried_in_1_5_percent_of_the_rounds(
    adaptive, truth, acceptance
):
    machine = Machine(truth, acceptance)
    timed = timed_on(machine, FAST, adaptive)
    for _ in range(TimeCurve.AGE):
        machine.round(timed)
    assert machine.drafted[10:].count(0) >= 0.985 * (TimeCurve.AGE - 10)


def slowed(costs: Costs, times: float) -> Costs:
    """Costs of rounds that draft while another program runs."""
    first, *others = costs.verify
    return Costs([first, *(times * v for v in others)], times * costs.draft)


@pytest.mark.parametrize("times", [1.0, 1.6, 2.0, 3.0])
@pytest.mark.parametrize("truth", [FAST, FLAT_THEN_STEEP], ids=["fast", "flat, then steep"])
@pytest.mark.parametrize("adaptive", [Adaptive, Confident])
def test_drafting_that_ended_in_a_dozen_slow_rounds_of_bad_luck_is_taken_up_again(
    adaptive, truth, times
):
    """In the same text: it ended by times that are over, so the next draft is soon made."""
    machine = Machine(slowed(truth, times), acceptance=0.0)
    timed = timed_on(machine, truth, adaptive)
    for _ in range(12):
        machine.round(timed)
    assert machine.drafted[-1] == 0
    machine.costs, machine.acceptance = truth, 1.0
    for _ in range(150):
        machine.round(timed)
    assert machine.drafted[12 + 60 :].count(0) <= 2, "plain steps that are timed"


def test_where_verification_turns_out_expensive_drafting_ends():
    machines = [Machine(STEEP, 0.4, generator=np.random.default_rng(seed)) for seed in range(20)]
    for machine in machines:
        timed = timed_on(machine, FAST)
        for _ in range(300):
            machine.round(timed)
    assert np.mean([machine.drafted[20:].count(0) for machine in machines]) >= 270
    assert np.mean([speedup(machine) for machine in machines]) >= 0.93


@pytest.mark.parametrize("guess", [FAST, STEEP], ids=["fast guess", "steep guess"])
@pytest.mark.parametrize("truth", [FAST, STEEP], ids=["fast", "steep"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_whatever_was_guessed_the_speed_is_nearly_that_of_known_costs(guess, truth, alpha):
    """10 % at most, of which the known costs' controller itself loses up to 7 % to the best γ."""
    machine = Machine(truth, acceptance=alpha)
    timed = timed_on(machine, guess)
    for _ in range(3000):
        machine.round(timed)
    _, best = truth.best(alpha)
    assert speedup(machine) >= 0.9 * best


def test_a_draft_that_was_guessed_too_slow_to_pay_is_tried_at_1_5_percent_of_the_time():
    machine = Machine(FAST, acceptance=0.8)
    timed = timed_on(machine, SLOW_DRAFT)
    pause = math.ceil((SLOW_DRAFT.round(1) - 1) / Adaptive.PROBE)
    for _ in range(pause + 1):
        machine.round(timed)
    assert machine.drafted == [0] * pause + [1]
    for _ in range(10 * pause):
        machine.round(timed)
    assert machine.drafted[-1] >= 3


def test_a_plain_step_is_timed_now_and_then():
    machine = Machine(FAST, acceptance=0.9)
    timed = timed_on(machine, FAST)
    for _ in range(1000):
        machine.round(timed)
    assert 1000 / 64 - 1 <= machine.drafted.count(0) <= 1000 / 64 + 1


def test_spikes_change_nothing():
    calm, disturbed = (Machine(FAST, acceptance=0.7, spike=spike) for spike in (0.0, 0.1))
    for machine in (calm, disturbed):
        timed = timed_on(machine, FAST)
        for _ in range(2000):
            machine.round(timed)
    means = [np.mean(machine.drafted) for machine in (calm, disturbed)]
    assert means[1] == pytest.approx(means[0], rel=0.15)


def test_costs_follow_the_length_of_the_cache():
    """Attention over a long cache makes each position dearer; a short cache is cheap again."""
    machine = Machine(FREE, acceptance=0.7)
    verification = VerificationTimes(FREE)
    costs = MeasuredCosts(FREE, verification)
    timed = Timed(Adaptive(costs), machine, verification, None, machine.clock)

    def marginal_cost_at(length: int, truth: Costs) -> float:
        machine.costs = truth
        for _ in range(100):
            machine.length = length
            machine.round(timed)
        return costs.now().marginal_cost(3)

    short = marginal_cost_at(100, FREE)
    long = marginal_cost_at(5000, STEEP)
    assert long > 5 * short
    for _ in range(MeasuredCosts.KEPT):
        machine.length = 100
        timed.gamma()
        timed.observe(0, 0, 0, 0)
    assert costs.now().marginal_cost(3) == pytest.approx(short, rel=0.2)


def test_what_happens_between_rounds_does_not_count():
    machine = Machine(FAST, acceptance=0.7)
    verification = VerificationTimes(FAST)
    timed = Timed(
        Adaptive(MeasuredCosts(FAST, verification)), machine, verification, None, machine.clock
    )
    for _ in range(20):
        machine.round(timed)
        machine.now += 100.0
    assert max(verification.seconds()) < 3 * STEP


def test_candidates_are_rows_of_the_verification():
    machine = Machine(FAST, acceptance=0.7)
    verification = VerificationTimes(FAST)
    timed = Timed(
        Adaptive(MeasuredCosts(FAST, verification)), machine, verification, None, machine.clock
    )
    for _ in range(4):
        timed.gamma()
        machine.now += 9 * STEP
        timed.observe(2, 2, 2, 3)
    assert verification.seconds()[5] == pytest.approx(9 * STEP)
