"""Claim: a text may end at any token of a drafted run; tokens, rows of logits and counts end there.

And a row that nothing depends on, after a rejected token or after the end, may have no token.
"""

from __future__ import annotations

import numpy as np
import pytest

from depth import one_in
from edgespec.core.decode import decoded, plain, speculate
from edgespec.core.distribution import one_hot
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate
from edgespec.core.randomness import Coupled
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import RULES
from edgespec.costs.controller import Fixed
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import UsageError
from hashed_model import HashedModel

SIZE = 40
PROMPT = [3, 4, 5]
GAMMA = 5
LENGTH = 3 * (GAMMA + 1)
SAMPLINGS = {"greedy": Sampling(), "drawn": Sampling(temperature=1.0)}


class SecondGuesses(ModelDrafter):
    """Drafts one wrong token, with the right one as its candidate."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        tokens = list(proposal.tokens)
        at = len(text) % len(tokens)
        right, tokens[at] = tokens[at], (tokens[at] + 1) % SIZE
        return Proposal(tokens, [one_hot(token) for token in tokens], [Candidate(at, right)])


def ends_after(count):
    """Ends a text with its token number `count`, counted from 1."""
    seen = []
    return lambda token: seen.append(token) or len(seen) == count


def rounds_of(count, sampling, *, rule=None, drafter=ModelDrafter, edit=None, **shape):
    """The rounds of a text of so many tokens; with a rule by a draft that is always right."""
    process = SamplingProcessor(SAMPLINGS[sampling])
    common = {
        "process": process,
        "randomness": Coupled(7, len(PROMPT)),
        "max_new_tokens": LENGTH,
        "ends": ends_after(count),
        "edit": edit,
    }
    target = HashedModel(SIZE, 1, **shape)
    if rule is None:
        return decoded(plain(target, PROMPT, logits=True, **common))
    draft = drafter(HashedModel(SIZE, 1), process, SharedTokens(SIZE))
    return decoded(
        speculate(
            target,
            draft,
            PROMPT,
            rule=RULES[rule],
            gamma=Fixed(GAMMA),
            logits=True,
            **common,
        )
    )


def text_of(rounds):
    """Tokens, and the row of logits of each."""
    tokens, rows = [], []
    for round_ in rounds:
        assert len(round_.logits) == len(round_.tokens)
        assert round_.accepted + round_.committed <= len(round_.tokens)
        assert round_.accepted <= round_.evaluated <= round_.drafted
        tokens += round_.tokens
        rows += [row.copy() for row in round_.logits]
    return tokens, np.array(rows)


@one_in(2)
@pytest.mark.parametrize("count", range(1, LENGTH))
@pytest.mark.parametrize("drafter", [ModelDrafter, SecondGuesses])
@pytest.mark.parametrize(
    ("sampling", "rule"),
    [("greedy", "token"), ("greedy", "block"), ("greedy", "coupled"), ("drawn", "coupled")],
)
def test_tokens_and_rows_end_with_the_text(sampling, rule, drafter, count):
    tokens, rows = text_of(rounds_of(count, sampling))
    shape = {"scores_candidates": drafter is SecondGuesses}
    found, found_rows = text_of(rounds_of(count, sampling, rule=rule, drafter=drafter, **shape))
    assert found == tokens
    assert len(found) == count
    assert (found_rows == rows).all()


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("count", range(1, LENGTH))
def test_rules_with_draws_of_their_own_end_there_too(rule, count):
    tokens, _ = text_of(rounds_of(count, "drawn", rule=rule))
    assert len(tokens) == count


# --- rows without a token -------------------------------------------------------------------------


def refusing_from(length):
    """An edit that refuses every row after so many generated tokens."""

    def edit(logits, generated):
        if len(generated) >= length:
            raise UsageError(f"no token after {len(generated)}")
        return logits

    return edit


@one_in(2)
@pytest.mark.parametrize("count", range(1, LENGTH))
@pytest.mark.parametrize(
    ("sampling", "rule"),
    [("greedy", "token"), ("greedy", "block"), ("greedy", "coupled"), ("drawn", "coupled")],
)
def test_a_row_after_the_end_may_have_no_token(sampling, rule, count):
    edit = refusing_from(count)
    tokens, _ = text_of(rounds_of(count, sampling, edit=edit))
    found, _ = text_of(rounds_of(count, sampling, rule=rule, edit=edit))
    assert found == tokens


@pytest.mark.parametrize("rule", RULES)
def test_a_row_after_a_rejected_token_may_have_no_token(rule):
    """Every drafted token is wrong, so each round has a row that follows no text."""

    def edit(logits, generated):
        if list(generated) != tokens[: len(generated)]:
            raise UsageError("not a text")
        return logits

    class Wrong(ModelDrafter):
        def propose(self, text, gamma, randomness):
            proposal = yield from super().propose(text, gamma, randomness)
            tokens = [(token + 1) % SIZE for token in proposal.tokens]
            return Proposal(tokens, [one_hot(token) for token in tokens])

    tokens = text_of(rounds_of(LENGTH, "greedy"))[0]
    found, _ = text_of(rounds_of(LENGTH, "greedy", rule=rule, drafter=Wrong, edit=edit))
    assert found == tokens


@one_in(2)
@pytest.mark.parametrize("length", range(LENGTH))
@pytest.mark.parametrize(
    ("sampling", "rule"),
    [("greedy", "token"), ("greedy", "block"), ("greedy", "coupled"), ("drawn", "coupled")],
)
def test_a_text_that_comes_to_such_a_row_has_the_tokens_before_it(sampling, rule, length):
    seen = {None: [], rule: []}
    for name, tokens in seen.items():
        rounds = rounds_of(99, sampling, rule=name, edit=refusing_from(length))
        with pytest.raises(UsageError, match=f"no token after {length}$"):
            tokens.extend(token for round_ in rounds for token in round_.tokens)
    assert seen[rule] == seen[None]
    assert len(seen[None]) == length
