"""Claim: γ follows from cost curve and acceptance rate, and predictions agree with the loop.

The paper's formulas are checked at the paper's numbers. The adaptive controller switches off where
drafting cannot pay and stays within 3 % of plain decoding. A predicted greedy speed-up, counted in
calls, equals what the loop then does.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.core.decode import decoded, speculate
from edgespec.core.distribution import Distribution
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import token_rule
from edgespec.costs.controller import Adaptive, Confident, Fixed, controller
from edgespec.costs.cost_model import Costs, estimated_costs, expected_tokens
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import UsageError
from edgespec.measure.predict import agreement, model_trace, predicted_speedup, replay_trace
from edgespec_export.quantization.formats import FORMATS
from tables import TableModel, as_distribution, fractions, varying

INT8 = FORMATS["int8"].row_cost
FREE = Costs([1.0] * 11, draft=0.0)


@pytest.mark.parametrize(
    # Table 1 of the paper: α, γ, speed-up at c = 0
    ("alpha", "gamma", "speedup"),
    [
        (0.6, 2, 1.96),
        (0.7, 3, 2.53),
        (0.8, 2, 2.44),
        (0.8, 5, 3.69),
        (0.9, 2, 2.71),
        (0.9, 10, 6.86),
    ],
)
def test_expected_tokens_are_those_of_the_papers_table_1(alpha, gamma, speedup):
    assert expected_tokens(alpha, gamma) == pytest.approx(speedup, abs=0.006)
    assert FREE.speedup(alpha, gamma) == pytest.approx(speedup, abs=0.006)


def test_a_draft_with_acceptance_0_never_pays():
    assert Costs([1, 1.05, 1.1], draft=0.1).best(0.0) == (0, 1)


def test_a_draft_as_slow_as_the_target_never_pays():
    assert Costs([1, 1.05, 1.1], draft=1.0).best(0.9) == (0, 1)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.3))
def test_the_best_gamma_is_never_slower_than_none(alpha, draft, slope):
    costs = Costs([1 + slope * extra for extra in range(9)], draft, overhead=0.05)
    gamma, speedup = costs.best(alpha)
    assert speedup >= 1
    assert speedup == pytest.approx(costs.speedup(alpha, gamma))
    assert speedup == pytest.approx(max(costs.speedup(alpha, g) for g in range(len(costs.verify))))


def drive(policy, costs, probabilities, rounds, generator):
    """Runs a controller against coin flips; returns tokens and cost in plain steps."""
    tokens = cost = 0.0
    for _ in range(rounds):
        gamma = policy.gamma()
        flips = generator.random(gamma) < probabilities
        accepted = int(np.argmin(flips)) if not flips.all() else gamma
        policy.observe(gamma, min(accepted + 1, gamma), accepted, 0)
        tokens += accepted + 1
        cost += costs.round(gamma) / costs.round(0)
    return tokens, cost


@pytest.mark.parametrize("draft", [0.02, 0.1, 0.3, 0.8])
@pytest.mark.parametrize("slope", [0.01, 0.05, 0.3])
def test_a_hopeless_draft_costs_at_most_3_percent(draft, slope):
    costs = Costs([1 + slope * extra for extra in range(17)], draft)
    tokens, cost = drive(Adaptive(costs), costs, 0.0, 128, np.random.default_rng(0))
    assert tokens == 128
    assert cost <= 1.03 * tokens


@pytest.mark.parametrize("draft", [0.02, 0.1, 0.3, 0.8])
@pytest.mark.parametrize("slope", [0.01, 0.05, 0.3])
def test_a_hopeless_draft_that_is_sure_of_itself_costs_at_most_3_percent(draft, slope):
    costs = Costs([1 + slope * extra for extra in range(17)], draft)
    policy, cost = Confident(costs), 0.0
    for _ in range(128):
        drafted = sure_draft(policy, probability=1.0)
        policy.observe(drafted, min(1, drafted), 0, 0)
        cost += costs.round(drafted)
    assert cost <= 1.03 * 128


def sure_draft(policy, probability):
    """The number of tokens that are drafted when each has the same probability."""
    drafted, all_of_them = 0, 1.0
    while drafted < policy.gamma():
        drafted, all_of_them = drafted + 1, all_of_them * probability
        if not policy.should_continue(all_of_them, 1 + drafted):
            break
    return drafted


def test_more_probable_tokens_give_longer_drafts():
    policy = Confident(Costs([1 + 0.05 * extra for extra in range(17)], draft=0.08))
    drafted = [sure_draft(policy, probability) for probability in (0.1, 0.5, 0.7, 0.99)]
    assert drafted[0] == 1
    assert drafted == sorted(set(drafted))


def test_more_expensive_tokens_need_more_probability():
    costs = [Costs([1 + s * extra for extra in range(17)], draft=0.08) for s in (0.01, 0.05, 0.1)]
    assert [sure_draft(Confident(c), 0.8) for c in costs] == sorted(
        (sure_draft(Confident(c), 0.8) for c in costs), reverse=True
    )


def test_a_candidate_must_be_worth_its_position_in_the_verification():
    """A candidate costs no call of the draft, so a slow draft does not make it more expensive."""
    slow_draft = Costs([1 + 0.05 * extra for extra in range(17)], draft=2.0)
    alone = Confident(slow_draft)
    assert alone.worth_candidate(0.0501, rows=2)
    assert not alone.worth_candidate(0.0499, rows=2)
    promising = Confident(Costs(slow_draft.verify, draft=0.01))
    for _ in range(32):
        promising.observe(4, 4, 4, 0)
    gained = Costs(slow_draft.verify, draft=0.01).best(1.0)[1]
    assert not promising.worth_candidate(0.05 * 1.5, rows=5)
    assert promising.worth_candidate(0.05 * gained, rows=5)


def test_the_marginal_cost_depends_on_the_number_of_rows():
    """While reading weights dominates, positions are nearly free; later each has its own cost."""
    curve = [1 + 0.01 * m for m in range(6)] + [1.05 + 0.2 * m for m in range(1, 12)]
    costs = Costs(curve, draft=0.0)
    assert [costs.marginal_cost(rows) for rows in (1, 3)] == pytest.approx([0.01, 0.01])
    assert [costs.marginal_cost(rows) for rows in (9, 17, 99)] == pytest.approx([0.2, 0.2, 0.2])
    assert (
        costs.marginal_cost(3)
        < costs.marginal_cost(5)
        < costs.marginal_cost(6)
        < costs.marginal_cost(8)
    )
    assert Costs([1.0], draft=0.0).marginal_cost(1) == 0
    dip = Costs([1.0, 1.04, 1.08, 1.07, 1.02, 1.05, 1.3], draft=0.0)
    assert dip.marginal_cost(4) == 0
    assert all(dip.marginal_cost(rows) >= 0 for rows in range(1, 8))


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_a_good_draft_gets_nearly_what_the_best_fixed_gamma_would(alpha):
    costs = Costs([1 + 0.05 * extra for extra in range(17)], draft=0.08)
    adaptive = drive(Adaptive(costs), costs, alpha, 4000, np.random.default_rng(1))
    _, best = costs.best(alpha)
    assert adaptive[0] / adaptive[1] >= 0.93 * best


def test_a_draft_that_becomes_good_is_used_again():
    costs = Costs([1 + 0.05 * extra for extra in range(17)], draft=0.1)
    policy, generator = Adaptive(costs), np.random.default_rng(2)
    drive(policy, costs, 0.0, 60, generator)
    assert policy.gamma() <= 1
    drive(policy, costs, 0.95, 200, generator)
    assert policy.gamma() >= 4


def gammas(policy, rounds, accepted):
    """Of rounds whose drafted tokens are all accepted, or none."""
    found = []
    for _ in range(rounds):
        gamma = policy.gamma()
        policy.observe(gamma, gamma if accepted else min(1, gamma), gamma * accepted, 0)
        found.append(gamma)
    return found


def switched_off():
    """A controller that drafted, and drafts no more since ten tokens were rejected."""
    policy = Adaptive(Costs([1 + 0.05 * extra for extra in range(17)], draft=0.5))
    for accepted in (1, *[0] * 10):
        policy.observe(1, 1, accepted, 0)
    return policy


def test_a_probe_whose_token_was_accepted_is_followed_by_another_at_once():
    """It brought two tokens for less than two steps."""
    found = gammas(switched_off(), 60, accepted=True)
    assert found[:20] == [0] * 16 + [1] * 4
    assert found[16:] == sorted(found[16:])
    assert found[-1] > 1


def test_the_first_probe_comes_soon_and_later_ones_as_often_as_they_are_cheap():
    found = gammas(switched_off(), 400, accepted=False)
    probes = [index for index, gamma in enumerate(found) if gamma]
    pauses = np.diff([-1, *probes]) - 1
    assert list(pauses) == [16, 37, 74, 147], "0.55 steps are 1.5 % of 37"


@pytest.mark.parametrize("gamma", [-1, "x", 1.5, "1.5", 17])
def test_an_impossible_gamma_is_refused(gamma):
    with pytest.raises(UsageError, match="gamma is"):
        controller(gamma, estimated_costs(100, 10, 16))


def test_where_a_plain_step_scores_two_positions_verifying_one_token_is_free():
    alone, padded = (estimated_costs(100, 10, 4, FORMATS["bf16"].row_cost, rows) for rows in (1, 2))
    assert padded.verify[:2] == [1, 1]
    assert padded.verify[1:] == pytest.approx(alone.verify[:-1])


def test_a_small_draft_is_read_from_memory_once_per_round():
    small, large = (estimated_costs(10**9, size, 4) for size in (15_999_999, 16_000_001))
    assert small.round(1) == pytest.approx(large.round(1))
    assert small.round(3) - small.round(2) < large.round(3) - large.round(2) - 0.015
    lookup = estimated_costs(10**9, 0, 4)
    assert lookup.draft == 0
    assert lookup.round(1) < small.round(1) - 0.015


def test_fixed_costs_matter_less_for_larger_targets():
    small, large = (estimated_costs(size, size // 10, 4) for size in (10**8, 10**11))
    assert large.draft == pytest.approx(0.1, abs=1e-3)
    assert small.draft > 1e-2
    assert small.overhead > large.overhead + 0.05


def test_with_kernels_one_more_int8_position_costs_less():
    kernels, without = (
        estimated_costs(10**9, 10, 4, INT8, kernels=there) for there in ("avx512", None)
    )
    assert kernels.verify[1] < without.verify[1]


def test_no_guess_lets_a_target_that_may_fit_the_cache_be_drafted_for():
    """Its plain step may take two fifths of the time, everything else as long as elsewhere."""
    small, large = (
        estimated_costs(n, 4 * 10**6, 16, INT8, kernels="avx512") for n in (27_000_000, 33_000_000)
    )
    assert small.best(0.7)[0] == 0
    assert large.best(0.7)[0] > 0
    without = estimated_costs(27 * 10**6, 4 * 10**6, 16, INT8)
    assert without.best(0.7)[0] > 0


def test_many_positions_in_kernels_are_bound_by_arithmetic():
    costs = estimated_costs(10**9, 0, 16, FORMATS["fp16"].row_cost, kernels="avx512")
    assert costs.marginal_cost(2) < 0.05
    assert costs.marginal_cost(12) == pytest.approx(0.2)
    assert costs.verify == sorted(costs.verify)


def test_products_that_take_an_instruction_set_longer_are_estimated_so():
    """AVX2 was measured: calls of 5, 6 and 9 rows take 1.27, 1.45 and 2.02 of a step."""
    wide, narrow = (
        estimated_costs(130 * 10**6, 0, 16, INT8, kernels=name) for name in ("avx512", "avx2")
    )
    assert [narrow.verify[rows - 1] for rows in (5, 6, 9)] == pytest.approx(
        [1.27, 1.45, 2.02], rel=0.1
    )
    assert wide.verify[8] < 1.3


@pytest.mark.parametrize(
    ("kernels", "measured"),
    [("avx512", {2: 0.99, 4: 1.06, 5: 1.11, 9: 1.54}), ("avx2", {4: 1.22, 5: 1.39, 9: 2.11})],
)
def test_int4_is_estimated_near_what_was_measured(kernels, measured):
    """SmolLM2-135M, docs/measurements/kernels.md."""
    costs = estimated_costs(95 * 10**6, 0, 16, FORMATS["int4"].row_cost, kernels=kernels)
    found = [costs.verify[rows - 1] for rows in measured]
    assert found == pytest.approx(list(measured.values()), rel=0.2)


def test_a_hopeless_draft_costs_at_most_3_percent_where_its_first_token_is_free():
    costs = estimated_costs(100, 0, 16, INT8, 2)
    tokens, cost = drive(Adaptive(costs), costs, 0.0, 128, np.random.default_rng(0))
    assert cost <= 1.03 * tokens


# --- predictions -------------------------------------------------------------------------------

TARGET = varying([fractions(5, 3, 2), fractions(1, 2, 6), fractions(2, 7, 1)])
DRAFT = varying([fractions(4, 3, 3), fractions(1, 2, 3), fractions(2, 7, 1)])
PROMPT = [0, 1]


def floats(distribution):
    return lambda context: [float(probability) for probability in distribution(context)]


def greedy(row):
    return SamplingProcessor(Sampling())(np.asarray(row, np.float32))


def text_and_rounds(draft, gamma, length, ends=lambda token: False):
    target = TableModel(floats(TARGET))
    rounds = list(
        decoded(
            speculate(
                target,
                draft,
                PROMPT,
                process=greedy,
                rule=token_rule,
                gamma=Fixed(gamma),
                randomness=Seeded(0),
                max_new_tokens=length,
                ends=ends,
            )
        )
    )
    return [token for round_ in rounds for token in round_.tokens], rounds


def trace_of(text, process, longest, **options):
    target, draft = TableModel(floats(TARGET)), TableModel(floats(DRAFT))
    return model_trace(target, draft, SharedTokens(3), PROMPT, text, process, longest, **options)


class EndsBehind:
    """Ends a text after this many tokens, without an end token."""

    def __init__(self, tokens):
        self.left = tokens

    def __call__(self, token):
        self.left -= 1
        return self.left == 0


def tokens_a_call_behind_the_first(rounds):
    return sum(len(round_.tokens) for round_ in rounds[1:]) / (len(rounds) - 1)


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
def test_predicted_greedy_calls_are_those_of_the_loop(gamma):
    """If a call costs one and nothing else costs anything, the predicted cost counts calls."""
    draft = ModelDrafter(TableModel(floats(DRAFT)), greedy, SharedTokens(3))
    text, rounds = text_and_rounds(draft, gamma, 40)
    trace = trace_of(text, greedy, 10)
    assert predicted_speedup([trace], FREE, gamma) == pytest.approx(
        tokens_a_call_behind_the_first(rounds)
    )
    assert len(rounds) < len(text)


@pytest.mark.parametrize("gamma", [1, 3])
def test_predicted_lookup_calls_are_those_of_the_loop(gamma):
    text, rounds = text_and_rounds(SuffixLookup(), gamma, 40)
    trace = replay_trace(SuffixLookup(), PROMPT, text, 10)
    assert predicted_speedup([trace], FREE, gamma) == pytest.approx(
        tokens_a_call_behind_the_first(rounds)
    )


@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_predicted_costs_of_a_text_that_ends_are_those_of_the_loop(gamma):
    """Drafts that miss the end of the text continue after it: they cost all γ tokens."""
    costs = Costs([1 + 0.5 * extra for extra in range(11)], draft=0.25)
    for end in range(12, 30):
        draft = ModelDrafter(TableModel(floats(DRAFT)), greedy, SharedTokens(3))
        text, rounds = text_and_rounds(draft, gamma, 40, ends=EndsBehind(end))
        trace = trace_of(text, greedy, 10, ended=True)
        cost = sum(costs.round(round_.drafted) for round_ in rounds[1:])
        speed = (len(text) - len(rounds[0].tokens)) / cost
        predicted = predicted_speedup([trace], costs, gamma)
        if rounds[-1].accepted < len(rounds[-1].tokens):
            assert predicted == pytest.approx(speed)
        else:  # no token tells this draft that the text ends: a right one goes on, too
            assert predicted >= speed


def stated_agreement(p, q):
    """Σ_x 1 / Σ_y max(p(y)/p(x), q(y)/q(x))."""
    both = [x for x in range(len(p)) if p[x] and q[x]]
    return sum(1 / sum(max(a / p[x], b / q[x]) for a, b in zip(p, q, strict=True)) for x in both)


def test_acceptance_of_a_model_is_how_often_both_choose_the_same_token():
    process = lambda row: as_distribution(np.asarray(row, float))  # noqa: E731
    text = [1, 2, 0, 1]
    trace = trace_of(text, process, 2)
    for start in range(len(text)):
        context = (*PROMPT, *text[:start])
        expected = float(stated_agreement(TARGET(context), DRAFT(context)))
        assert trace.probabilities[start][0] == pytest.approx(expected)


WEIGHTS = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


@given(WEIGHTS, WEIGHTS)
def test_agreement_lies_between_its_bounds(p_weights, q_weights):
    p, q = (np.array(weights) / sum(weights) for weights in (p_weights, q_weights))
    tokens = np.flatnonzero(q)
    found = agreement(Distribution(np.arange(4), p), Distribution(tokens, q[tokens]))
    assert found == pytest.approx(float(stated_agreement(p, q)))
    distance = np.abs(p - q).sum() / 2
    assert (1 - distance) / (1 + distance) - 1e-9 <= found <= 1 - distance + 1e-9


def test_agreement_is_how_often_the_noise_of_a_position_makes_the_same_choice():
    """2000 positions: Hoeffding's bound .061 is exceeded with probability at most 1e-6."""
    p, q = (np.float32([0.5, 0.3, 0.15, 0.05]), np.float32([0.3, 0.2, 0.1, 0.4]))
    p, q = (Distribution(np.arange(4), row) for row in (p, q))
    noise = [Coupled(0, position) for position in range(2000)]
    same = [r.categorical(p, 0) == r.categorical(q, 0) for r in noise]
    assert np.mean(same) == pytest.approx(agreement(p, q), abs=0.061)
