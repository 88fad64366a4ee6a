"""Claim: whatever the draft, the shipped loop emits texts with exactly the target's distribution.

Not a statistic: every random branch of `edgespec.core.decode.speculate` is walked in rational
arithmetic. The distribution of the emitted text is compared, as fractions, with the product of the
target's conditional distributions. The same comparison must catch mutants: known mistakes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from branches import exact_distribution
from candidate_drafter import WithCandidates
from depth import one_in
from edgespec.core.decode import decoded, plain, speculate
from edgespec.core.distribution import Distribution, one_hot
from edgespec.core.draft import Proposal, proposed
from edgespec.core.model import Candidate
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.verification import VerificationResult, block_rule, residual, token_rule
from edgespec.costs.controller import Adaptive, Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.alternating import AlternatingDrafter
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.drafters.vocabulary_map import SharedTokens
from tables import BranchingTable, ReadingTable, TableModel, as_distribution, fractions, varying

# Other tests run these lines too; counting them here would double the time of each pass.
pytestmark = pytest.mark.no_cover

PROMPT = [0]
END = 2

# (distributions of the target, distributions of the draft): each context picks one of each.
PAIRS = {
    "close": (
        [fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)],
        [fractions(4, 3, 3), fractions(1, 2, 1)],
    ),
    "far": (
        [fractions(8, 1, 1), fractions(1, 1, 8)],
        [fractions(1, 8, 1), fractions(1, 7, 2), fractions(3, 3, 4)],
    ),
    "equal": ([fractions(5, 3, 2), fractions(1, 2, 3)], [fractions(5, 3, 2), fractions(1, 2, 3)]),
    "zeros in the target": (
        [fractions(1, 1, 0), fractions(0, 3, 1), fractions(1, 0, 0)],
        [fractions(1, 1, 1), fractions(2, 1, 1)],
    ),
    "zeros in the draft": (
        [fractions(1, 2, 3), fractions(2, 1, 1)],
        [fractions(0, 1, 1), fractions(1, 0, 0), fractions(1, 1, 0)],
    ),
    "disjoint": (
        [fractions(1, 1, 0), fractions(0, 1, 1)],
        [fractions(0, 0, 1), fractions(1, 0, 0)],
    ),
    "one-hot": ([fractions(0, 1, 0), fractions(1, 0, 0)], [fractions(0, 1, 0), fractions(0, 0, 1)]),
}
RULES = {"token": token_rule, "block": block_rule}


def never(token):
    return False


def target_distribution(distribution, length, ends=never):
    """P(text) = Π p(x_t | x_<t), for texts of at most `length` tokens cut after an end token."""
    texts = {(): Fraction(1)}
    for _ in range(length):
        longer = {}
        for text, probability in texts.items():
            if text and ends(text[-1]):
                longer[text] = longer.get(text, 0) + probability
                continue
            for token, conditional in enumerate(distribution((*PROMPT, *text))):
                if conditional:
                    longer[(*text, token)] = probability * conditional
        texts = longer
    return texts


def loop_distribution(
    target_distributions, make_draft, rule, gamma, *, length, ends=never, process=as_distribution
):
    def run(randomness):
        rounds = decoded(
            speculate(
                TableModel(target_distributions),
                make_draft(),
                PROMPT,
                process=process,
                rule=rule,
                gamma=gamma(),
                randomness=randomness,
                max_new_tokens=length,
                ends=ends,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run)


def pair_distributions(name):
    target, draft = PAIRS[name]
    return varying(target), varying(draft, stride=1 if name == "equal" else 2)


def model_draft(distribution, process=as_distribution, **options):
    return lambda: ModelDrafter(TableModel(distribution), process, SharedTokens(3), **options)


# --- the distribution ------------------------------------------------------------------------


def test_the_plain_loop_has_the_targets_distribution():
    p, _ = pair_distributions("close")

    def run(randomness):
        rounds = decoded(
            plain(
                TableModel(p),
                PROMPT,
                process=as_distribution,
                randomness=randomness,
                max_new_tokens=3,
                ends=lambda token: token == END,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    assert exact_distribution(run) == target_distribution(p, 3, lambda token: token == END)


@one_in(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_text_has_the_targets_distribution(pair, gamma, rule):
    p, q = pair_distributions(pair)
    distribution = loop_distribution(p, model_draft(q), RULES[rule], lambda: Fixed(gamma), length=4)
    assert distribution == target_distribution(p, 4)


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", PAIRS)
def test_text_that_stops_early_has_the_targets_distribution(pair, rule):
    p, q = pair_distributions(pair)
    ends = END.__eq__
    draft = model_draft(q, last_tokens={END})
    distribution = loop_distribution(p, draft, RULES[rule], lambda: Fixed(3), length=4, ends=ends)
    assert distribution == target_distribution(p, 4, ends)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", ["close", "far", "disjoint"])
def test_text_has_the_targets_distribution_when_gamma_adapts(pair, rule):
    p, q = pair_distributions(pair)
    costs = Costs(verify=[1, 1.1, 1.2, 1.3], draft=0.2)
    gamma = lambda: Adaptive(costs, guess=0.5, memory=0.5)  # noqa: E731
    assert loop_distribution(
        p, model_draft(q), RULES[rule], gamma, length=4
    ) == target_distribution(p, 4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", ["close", "far", "disjoint"])
def test_text_has_the_targets_distribution_when_two_drafters_alternate(pair, rule):
    """Prompt lookup and a model, each used as long as its tokens are accepted."""
    p, q = pair_distributions(pair)
    costs = Costs(verify=[1, 1.1, 1.2, 1.3], draft=0.2)

    def run(randomness):
        sources = [
            (SuffixLookup(), Adaptive(costs, guess=0.5, memory=0.5)),
            (model_draft(q)(), Adaptive(costs, guess=0.5, memory=0.5)),
        ]
        alternating = AlternatingDrafter(sources)
        rounds = decoded(
            speculate(
                TableModel(p),
                alternating,
                PROMPT,
                process=as_distribution,
                rule=RULES[rule],
                gamma=alternating,
                randomness=randomness,
                max_new_tokens=4,
                ends=never,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    assert exact_distribution(run) == target_distribution(p, 4)


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", ["close", "far", "disjoint"])
def test_text_has_the_targets_distribution_when_a_draft_stops_where_it_is_unsure(pair, rule):
    p, q = pair_distributions(pair)
    draft = model_draft(q, should_continue=lambda probability, rows: probability > 0.4)
    distribution = loop_distribution(p, draft, RULES[rule], lambda: Fixed(3), length=4)
    assert distribution == target_distribution(p, 4)


class Refreshed(ModelDrafter):
    """Mutant: reports the distributions it would have drawn from, had the target been
    there already."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        context = (*PROMPT, *text[1:])
        q = [
            as_distribution(
                np.array(
                    self._model.distribution((*context, *proposal.tokens[:index], 1)), dtype=object
                )
            )
            for index in range(len(proposal.tokens))
        ]
        return Proposal(proposal.tokens, q)


def reading_distribution(pair, rule, draft_class):
    """With an EAGLE head, which reads the target's hidden states, or its own where it has none."""
    p, q = pair_distributions(pair)

    def run(randomness):
        target = TableModel(p)
        rounds = decoded(
            speculate(
                target,
                draft_class(ReadingTable(q, target), as_distribution, SharedTokens(3)),
                PROMPT,
                process=as_distribution,
                rule=RULES[rule],
                gamma=Fixed(2),
                randomness=randomness,
                max_new_tokens=4,
                ends=never,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run), target_distribution(p, 4)


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", ["close", "far", "disjoint"])
def test_text_has_the_targets_distribution_with_an_eagle_head(pair, rule):
    found, expected = reading_distribution(pair, rule, ModelDrafter)
    assert found == expected


@pytest.mark.parametrize("rule", RULES)
def test_reporting_another_distribution_than_the_one_drawn_from_is_caught(rule):
    found, expected = reading_distribution("far", rule, Refreshed)
    assert found != expected


def arg_max(row):
    return one_hot(int(np.argmax(row)))


THREE = Fixed(3)


def rounds_of(
    target, draft, rule, randomness, *, process=as_distribution, gamma=THREE, length=4, ends=never
):
    return decoded(
        speculate(
            target,
            draft,
            PROMPT,
            process=process,
            rule=RULES[rule],
            gamma=gamma,
            randomness=randomness,
            max_new_tokens=length,
            ends=ends,
        )
    )


def branching_distribution(pair, rule, make_target=BranchingTable, make_draft=None, **options):
    """With a target that scores candidates and a draft that proposes them."""
    p, q = pair_distributions(pair)

    def run(randomness):
        target = make_target(p)
        draft = make_draft(q, target) if make_draft else TableModel(q)
        drafter = WithCandidates(draft, as_distribution, SharedTokens(3))
        rounds = rounds_of(target, drafter, rule, randomness, **options)
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run), target_distribution(
        p, options.get("length", 4), options.get("ends", never)
    )


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", PAIRS)
def test_text_has_the_targets_distribution_with_candidates(pair, rule):
    found, expected = branching_distribution(pair, rule)
    assert found == expected


@one_in(2, turn=1)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", PAIRS)
def test_text_that_ends_with_a_candidate_has_the_targets_distribution(pair, rule):
    found, expected = branching_distribution(pair, rule, ends=END.__eq__)
    assert found == expected


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("most", [4, 5, 7])
def test_text_has_the_targets_distribution_where_not_all_candidates_fit(rule, most):
    found, expected = branching_distribution(
        "far", rule, lambda distribution: BranchingTable(distribution, most)
    )
    assert found == expected


@one_in(2, turn=1)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", ["close", "far", "disjoint"])
def test_text_has_the_targets_distribution_with_candidates_of_an_eagle_head(pair, rule):
    found, expected = branching_distribution(pair, rule, make_draft=ReadingTable)
    assert found == expected


class WrongRow(BranchingTable):
    """Mutant: after a candidate, returns the distribution after the drafted token it replaces."""

    def score(self, tokens, candidates=()):
        rows = super().score(tokens, candidates)
        for row, (parent, _) in enumerate(candidates, start=len(tokens)):
            rows[row] = rows[parent + 1]
        return rows


class TakesAnother(BranchingTable):
    """Mutant: the cache continues with another token than the text."""

    def commit_candidate(self, candidate):
        super().commit_candidate(candidate)
        self._cache[-1] = (self._cache[-1] + 1) % 3


@pytest.mark.parametrize("mutant", [WrongRow, TakesAnother])
def test_a_target_that_mistakes_candidates_is_caught(mutant):
    found, expected = branching_distribution("far", "token", mutant)
    assert found != expected


def test_a_round_whose_correction_is_a_candidate_emits_one_token_more():
    p, q = pair_distributions("far")
    texts, calls = [], []
    for draft_class in (ModelDrafter, WithCandidates):
        target = BranchingTable(p)
        drafter = draft_class(TableModel(q), arg_max, SharedTokens(3))
        rounds = list(rounds_of(target, drafter, "token", Seeded(0), process=arg_max, length=30))
        texts.append([token for round_ in rounds for token in round_.tokens])
        calls.append(target.calls)
        assert all(len(r.tokens) <= r.accepted + 1 + r.committed for r in rounds)
        assert any(r.committed for r in rounds) == (draft_class is WithCandidates)
    assert texts[0] == texts[1]
    assert calls[1] < calls[0]


class Recorded(Seeded):
    """Records every draw as (tokens emitted before the round, index of the draw in it)."""

    def __init__(self, seed):
        super().__init__(seed)
        self.numbers = []

    def _uniform(self):
        self.numbers.append((self._emitted, self._draws))
        return super()._uniform()


@pytest.mark.parametrize("rule", RULES)
def test_a_bonus_after_a_candidate_uses_the_first_draw_of_its_position(rule):
    """No random number is used twice: tokens drawn with the same number would be correlated."""
    p, q = pair_distributions("far")
    bonuses = 0
    for seed in range(20):
        randomness = Recorded(seed)
        drafter = WithCandidates(TableModel(q), as_distribution, SharedTokens(3))
        rounds = rounds_of(BranchingTable(p), drafter, rule, randomness, length=30)
        emitted = 0
        for round_ in rounds:
            emitted += len(round_.tokens)
            if round_.committed and len(round_.tokens) > round_.accepted + 1:
                assert randomness.numbers[-1] == (emitted - 1, 0)
                bonuses += 1
        assert len(set(randomness.numbers)) == len(randomness.numbers)
    assert bonuses


@pytest.mark.parametrize("parent", [-1, 0, 1, 3])
def test_a_candidate_for_a_position_that_is_not_drafted_is_dropped(parent):
    """A caller's drafter may propose one after its last token, or after the end of the text."""
    p, q = pair_distributions("far")

    class Outside(ModelDrafter):
        def propose(self, text, gamma, randomness):
            line = yield from super().propose(text, min(gamma, 1), randomness)
            return Proposal(line.tokens, line.q, [Candidate(parent, token) for token in range(3)])

    def run(randomness):
        target = BranchingTable(p)
        drafter = Outside(TableModel(q), as_distribution, SharedTokens(3))
        rounds = list(rounds_of(target, drafter, "token", randomness))
        assert all(r.candidates <= 3 * (parent == 0 and r.drafted) for r in rounds)
        return tuple(token for round_ in rounds for token in round_.tokens)

    assert exact_distribution(run) == target_distribution(p, 4)


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", PAIRS)
def test_text_has_the_targets_distribution_when_the_draft_takes_its_arg_max(pair, rule):
    p, q = pair_distributions(pair)
    distribution = loop_distribution(
        p, model_draft(q, arg_max), RULES[rule], lambda: Fixed(3), length=4
    )
    assert distribution == target_distribution(p, 4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pair", PAIRS)
def test_text_has_the_targets_distribution_when_the_draft_is_prompt_lookup(pair, rule):
    p, _ = pair_distributions(pair)
    lookup = lambda: SuffixLookup()  # noqa: E731
    assert loop_distribution(
        p, lookup, RULES[rule], lambda: Fixed(3), length=4
    ) == target_distribution(p, 4)


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_greedy_text_is_the_targets_own(gamma):
    """Greedy is the same rules on one-hot p and q, so the distribution is a single text."""
    p, q = pair_distributions("close")
    greedy = lambda row: arg_max(row)  # noqa: E731
    for rule in RULES.values():
        draft = model_draft(q, greedy)
        distribution = loop_distribution(
            p, draft, rule, lambda: Fixed(gamma), length=4, process=greedy
        )
        alone = lambda context: [Fraction(int(t == np.argmax(p(context)))) for t in range(3)]  # noqa: E731
        assert distribution == target_distribution(alone, 4)


# --- what else each rule guarantees -----------------------------------------------------------


def test_the_block_rule_accepts_at_least_as_much_as_the_token_rule():
    for pair in PAIRS:
        p, q = pair_distributions(pair)
        accepted = {}
        for name, rule in RULES.items():
            distributions = exact_distribution(
                lambda randomness, rule=rule, p=p, q=q: _first_run(p, q, rule, randomness)
            )
            accepted[name] = sum(run * probability for run, probability in distributions.items())
        assert accepted["block"] >= accepted["token"], pair


def _first_run(p, q, rule, randomness):
    return _first_result(p, q, rule, randomness)[0]


def _first_result(p, q, rule, randomness):
    draft = ModelDrafter(TableModel(q), as_distribution, SharedTokens(3))
    draft.begin(PROMPT)
    proposal = computed(proposed(draft, PROMPT, 3, randomness))
    distributions = [
        as_distribution(np.array(p((*PROMPT, *proposal.tokens[:i])), dtype=object))
        for i in range(4)
    ]
    result = rule(proposal, distributions, randomness)
    return result.accepted, result.evaluated, result.next


@pytest.mark.parametrize("rule", RULES)
def test_evaluated_counts_the_accepted_tokens_and_the_first_rejected_one(rule):
    """So γ "auto" and α mean the same with both rules."""
    p, q = pair_distributions("close")
    found = exact_distribution(lambda randomness: _first_result(p, q, RULES[rule], randomness)[:2])
    assert {accepted for accepted, _ in found} == {0, 1, 2, 3}
    assert all(evaluated == min(accepted + 1, 3) for accepted, evaluated in found)


class Later(Fixed):
    """γ = 0 for some rounds, then a fixed γ."""

    def __init__(self, gamma, rounds):
        super().__init__(gamma)
        self._left = rounds

    def gamma(self):
        return super().gamma() if self._left <= 0 else 0

    def observe(self, *_):
        self._left -= 1


@pytest.mark.parametrize(("rounds", "drafted"), [(0, 2), (1, 2), (2, 1), (3, 0)])
def test_a_draft_that_starts_late_reads_the_prompt_and_the_text_so_far(rounds, drafted):
    """A draft equal to the target is always accepted; one that never drafts reads nothing."""
    p, q = pair_distributions("equal")
    reads = []

    class Read(TableModel):
        def prefill(self, prompt, assistant_spans=None):
            reads.append(prompt)
            return super().prefill(prompt, assistant_spans)

    def run(randomness):
        draft = ModelDrafter(Read(q), as_distribution, SharedTokens(3))
        emitted = rounds_of(TableModel(p), draft, "token", randomness, gamma=Later(2, rounds))
        return tuple(np.sum([(r.drafted, r.accepted) for r in emitted], axis=0).tolist())

    assert exact_distribution(run) == {(drafted, drafted): 1}
    assert bool(reads) == bool(drafted)


@pytest.mark.parametrize("rule", RULES)
def test_a_draft_equal_to_the_target_is_always_accepted(rule):
    p, _ = pair_distributions("close")
    runs = exact_distribution(lambda randomness: _first_run(p, p, RULES[rule], randomness))
    assert runs == {3: 1}


def test_a_round_costs_one_target_call():
    p, q = pair_distributions("disjoint")
    target = TableModel(p)
    rounds = list(
        decoded(
            speculate(
                target,
                ModelDrafter(TableModel(q), as_distribution, SharedTokens(3)),
                PROMPT,
                process=as_distribution,
                rule=token_rule,
                gamma=Fixed(3),
                randomness=Seeded(0),
                max_new_tokens=12,
                ends=never,
            )
        )
    )
    assert target.calls == len(rounds)


# --- mutants: each is a mistake of a real project -----------------------------------------------


def swapped_ratio(proposal, p, randomness):
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.q, strict=True)):
        probability = p[i].of(token)
        if not probability or not randomness.bernoulli(q.of(token) / probability):
            return VerificationResult(i, i + 1, residual(p[i], q))
    return VerificationResult(len(proposal.tokens), len(proposal.tokens), p[len(proposal.tokens)])


def residual_is_p(proposal, p, randomness):
    result = token_rule(proposal, p, randomness)
    return VerificationResult(result.accepted, result.evaluated, p[result.accepted])


def stale_residual(proposal, p, randomness):
    result = token_rule(proposal, p, randomness)
    if 0 < result.accepted < len(proposal.tokens):
        stale = residual(p[result.accepted - 1], proposal.q[result.accepted - 1])
        return VerificationResult(result.accepted, result.evaluated, stale)
    return result


def residual_after_full_acceptance(proposal, p, randomness):
    result = token_rule(proposal, p, randomness)
    if proposal.tokens and result.accepted == len(proposal.tokens):
        again = residual(p[result.accepted], proposal.q[-1])
        return VerificationResult(result.accepted, result.evaluated, again)
    return result


def block_that_breaks_at_the_first_failure(proposal, p, randomness):
    w = Fraction(1)
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.q, strict=True)):
        w = min(w * p[i].of(token) / q.of(token), Fraction(1))
        if not randomness.bernoulli(w):
            return VerificationResult(i, len(proposal.tokens), residual(p[i], q))
    return VerificationResult(len(proposal.tokens), len(proposal.tokens), p[len(proposal.tokens)])


MUTANTS = [
    swapped_ratio,
    residual_is_p,
    stale_residual,
    residual_after_full_acceptance,
    block_that_breaks_at_the_first_failure,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_rule_is_caught(mutant):
    p, q = pair_distributions("close")
    distribution = loop_distribution(p, model_draft(q), mutant, lambda: Fixed(2), length=3)
    assert distribution != target_distribution(p, 3)  # of few branches


class DistributionForAnArgMax(ModelDrafter):
    """Drafts the most probable token but reports the soft distribution (transformers #47932)."""

    def propose(self, text, gamma, randomness):
        greedy = yield from super().propose(text, gamma, randomness)
        soft = [self.soft((*text, *greedy.tokens[:i])) for i in range(len(greedy.tokens))]
        return Proposal(greedy.tokens, soft)


class DropsAnUnlikelySample(ModelDrafter):
    """Drops a sampled token because it turned out improbable."""

    def propose(self, text, gamma, randomness):
        whole = yield from super().propose(text, gamma, randomness)
        sure = [q.of(t) >= Fraction(1, 3) for t, q in zip(whole.tokens, whole.q, strict=True)]
        count = sure.index(False) if False in sure else len(sure)
        return whole.first(count)


def test_a_soft_distribution_for_an_arg_max_draft_is_caught():
    p, q = pair_distributions("close")

    def draft():
        wrong = DistributionForAnArgMax(TableModel(q), arg_max, SharedTokens(3))
        wrong.soft = lambda text: Distribution(np.arange(3), np.array(q(text), dtype=object))
        return wrong

    assert loop_distribution(
        p, draft, token_rule, lambda: Fixed(2), length=3
    ) != target_distribution(p, 3)


def test_dropping_a_sampled_token_for_being_unlikely_is_caught():
    p, q = pair_distributions("close")
    draft = lambda: DropsAnUnlikelySample(TableModel(q), as_distribution, SharedTokens(3))  # noqa: E731
    assert loop_distribution(
        p, draft, token_rule, lambda: Fixed(2), length=3
    ) != target_distribution(p, 3)
