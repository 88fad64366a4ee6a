"""Claim: changes of logits by the text so far are part of p, for every row that is verified.

The loops' distribution in fractions, with mutants; then the changes themselves.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from branches import exact_distribution
from candidate_drafter import WithCandidates
from depth import one_in
from edgespec.core.decode import decoded, plain, speculate
from edgespec.core.distribution_options import LogitEdits
from edgespec.core.logit_edits import edit_of
from edgespec.core.verification import block_rule, token_rule
from edgespec.costs.controller import Fixed
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import UsageError
from tables import BranchingTable, TableModel, as_distribution, fractions, varying

PROMPT = [0]
LENGTH = 4
RULES = {"token": token_rule, "block": block_rule}
P = varying([fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)])
Q = varying([fractions(4, 3, 3), fractions(1, 2, 1)], stride=2)


def by_history(row, generated):
    """Weights that depend on which tokens were generated, and in which order."""
    code = sum((index + 1) * (token + 1) for index, token in enumerate(generated))
    weights = np.array([weight * (1 + (code + t) % 3) for t, weight in enumerate(row)])
    return weights / weights.sum()


def expected_distribution(length=LENGTH):
    """P(text) = Π edited p(x_t | x_<t)."""
    texts = {(): Fraction(1)}
    for _ in range(length):
        texts = {
            (*text, token): probability * conditional
            for text, probability in texts.items()
            for token, conditional in enumerate(by_history(P((*PROMPT, *text)), text))
        }
    return texts


def found_distribution(rule, drafter=ModelDrafter, target=TableModel, length=LENGTH):
    def run(randomness):
        rounds = decoded(
            speculate(
                target(P),
                drafter(TableModel(Q), as_distribution, SharedTokens(3)),
                PROMPT,
                process=as_distribution,
                rule=RULES[rule],
                gamma=Fixed(length - 1),
                randomness=randomness,
                max_new_tokens=length,
                ends=lambda _: False,
                edit=by_history,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run)


# --- the distribution -----------------------------------------------------------------------------


def test_plain_text_has_the_edited_distribution():
    def run(randomness):
        rounds = decoded(
            plain(
                TableModel(P),
                PROMPT,
                process=as_distribution,
                randomness=randomness,
                max_new_tokens=LENGTH,
                ends=lambda _: False,
                edit=by_history,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    assert exact_distribution(run) == expected_distribution()


@one_in(2)
@pytest.mark.parametrize("rule", RULES)
def test_speculative_text_has_the_edited_distribution(rule):
    assert found_distribution(rule) == expected_distribution()


@one_in(2, turn=1)
@pytest.mark.parametrize("rule", RULES)
def test_text_with_candidates_has_the_edited_distribution(rule):
    assert found_distribution(rule, WithCandidates, BranchingTable) == expected_distribution()


def rejected_tokens_count(row, text, drafted, candidates):
    return [*text[1:], *drafted]


def drafted_tokens_do_not_count(row, text, drafted, candidates):
    return text[1:]


def only_the_bonus_is_edited(row, text, drafted, candidates):
    return [*text[1:], *drafted] if row == len(drafted) else ()


def the_pending_token_counts(row, text, drafted, candidates):
    return [*text, *drafted[:row]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "mutant",
    [
        rejected_tokens_count,
        drafted_tokens_do_not_count,
        only_the_bonus_is_edited,
        the_pending_token_counts,
    ],
)
def test_a_row_that_is_edited_by_other_tokens_is_caught(rule, mutant, monkeypatch):
    monkeypatch.setattr("edgespec.core.scoring._before", mutant)
    assert found_distribution(rule, length=3) != expected_distribution(3)  # of few branches


@pytest.mark.parametrize("rule", RULES)
def test_a_candidate_s_row_that_misses_the_candidate_is_caught(rule, monkeypatch):
    def mutant(row, text, drafted, candidates):
        return [*text[1:], *drafted[: min(row, len(drafted))]]

    monkeypatch.setattr("edgespec.core.scoring._before", mutant)
    found = found_distribution(rule, WithCandidates, BranchingTable, length=3)
    assert found != expected_distribution(3)


# --- the changes ----------------------------------------------------------------------------------

LOGITS = np.array([2.0, -1.0, 0.5, 3.0, -2.5, 0.0, 1.5, -0.5], np.float32)


def edited(generated, prompt=(), last_tokens=(7,), **options):
    edit = edit_of(LogitEdits(**options), prompt, last_tokens, len(LOGITS))
    assert edit is not None
    before = LOGITS.copy()
    result = edit(LOGITS, generated)
    assert (before == LOGITS).all(), "the model's own logits were changed"
    assert result.dtype == np.float32
    return result


def test_the_usual_values_change_nothing():
    assert edit_of(LogitEdits(), [1, 2], [7], 8) is None


@pytest.mark.parametrize("penalty", [0.5, 1.3, 2.0])
def test_the_repetition_penalty_is_that_of_transformers(penalty):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    prompt, generated = [3, 4, 4], [0, 4, 5]
    reference = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    rows = torch.from_numpy(LOGITS.copy())[None]
    expected = reference(torch.tensor([prompt + generated]), rows)[0].numpy()
    found = edited(generated, prompt, repetition_penalty=penalty)
    assert found == pytest.approx(expected, rel=1e-6)


def test_presence_and_frequency_penalties_are_subtracted_from_generated_tokens_only():
    found = edited([1, 3, 3, 3], prompt=[0, 6], presence_penalty=0.5, frequency_penalty=0.25)
    expected = LOGITS.copy()
    expected[1] -= 0.5 + 0.25
    expected[3] -= 0.5 + 3 * 0.25
    assert found == pytest.approx(expected)


def test_a_bias_is_added_to_its_token():
    found = edited([], logit_bias={2: 5, 0: -100})
    expected = LOGITS.copy()
    expected[[2, 0]] += np.array([5, -100], np.float32)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("count", range(4))
def test_no_text_ends_before_its_least_length(count):
    found = edited([1] * count, min_tokens=2)
    assert (found[7] == -np.inf) == (count < 2)
    assert (np.delete(found, 7) == np.delete(LOGITS, 7)).all()


def test_the_order_is_repetition_then_penalties_then_bias():
    found = edited([3], repetition_penalty=2, presence_penalty=1, logit_bias={3: 10})
    assert found[3] == 3 / 2 - 1 + 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetition_penalty": 0}, "repetition_penalty is 0; give a number above 0"),
        ({"repetition_penalty": float("nan")}, "repetition_penalty is nan"),
        ({"presence_penalty": 2.5}, "presence_penalty is 2.5; give a number from -2 to 2"),
        ({"frequency_penalty": "a"}, "frequency_penalty is 'a'; give a number from -2 to 2"),
        ({"frequency_penalty": True}, "frequency_penalty is True"),
        ({"logit_bias": [1]}, "logit_bias is [1]; give numbers by token ids"),
        ({"logit_bias": {"a": 1}}, "logit_bias has the token 'a'; give its id"),
        ({"logit_bias": {-1: 1}}, "logit_bias has the token -1; give its id"),
        ({"logit_bias": {1: 101}}, "the logit_bias of token 1 is 101; give a number from -100"),
        ({"logit_bias": {8: 1}}, "logit_bias has the token 8; this model's are 0 to 7"),
        ({"min_tokens": -1}, "min_tokens is -1; give 0 (off)"),
        ({"min_tokens": 1.5}, "min_tokens is 1.5"),
    ],
)
def test_values_out_of_range_are_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        edit_of(LogitEdits(**options), [], [], 8)
