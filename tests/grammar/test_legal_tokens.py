"""Claim: a mask of legal tokens is part of p, on every row that is verified: those of drafted
tokens, the residual's, the bonus's and the candidates'.

The loops' distribution in fractions, with mutants. The mask is a tiny language over three tokens.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from branches import exact_distribution
from candidate_drafter import WithCandidates
from edgespec.core.decode import decoded, plain, speculate
from edgespec.core.distribution import Distribution, one_hot
from edgespec.core.distribution_options import LogitEdits
from edgespec.core.draft import Proposal, proposed
from edgespec.core.logit_edits import edit_of
from edgespec.core.requests import computed
from edgespec.core.verification import block_rule, token_rule
from edgespec.costs.controller import Fixed
from edgespec.drafters.grammar_drafter import GrammarDrafter
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import UsageError
from edgespec.grammar.legal_tokens import only_legal
from tables import BranchingTable, TableModel, fractions, varying

PROMPT = [0]
LENGTH = 4
END = 2
RULES = {"token": token_rule, "block": block_rule}
P = varying([fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)])
Q = varying([fractions(4, 3, 3), fractions(1, 2, 1)], stride=2)


class Language:
    """Two equal tokens are followed by another one, three tokens by END, and 1 0 by 1."""

    def legal(self, generated):
        if END in generated:
            return None
        for count in range(len(generated)):
            if not self._row(generated[:count])[generated[count]]:
                return None
        return self._row(generated)

    def allows(self, token, generated):
        row = self.legal(generated)
        return row is None or bool(row[token])

    def _row(self, generated):
        row = np.array([True, True, len(generated) > 1])
        if len(generated) > 1 and generated[-1] == generated[-2]:
            row[generated[-1]] = False
        if list(generated[-2:]) == [1, 0]:
            row[:] = [False, True, False]
        if len(generated) == 3:
            row[:] = [False, False, True]
        return row

    def forced(self, generated, most):
        text = list(generated)
        while len(text) - len(generated) < most:
            row = self.legal(text)
            if row is None or row.sum() != 1:
                break
            text.append(int(row.argmax()))
        return text[len(generated) :]


LANGUAGE = Language()


def left(row):
    """The distribution of a row's weights, without those that a mask removed."""
    weights = np.array([Fraction(0) if w == -math.inf else w for w in row], dtype=object)
    return Distribution(np.arange(len(row)), weights / weights.sum())


def expected_distribution():
    """P(text) = Π p(x_t | x_<t, x_t is legal)."""
    texts = {(): Fraction(1)}
    for _ in range(LENGTH):
        longer = {}
        for text, probability in texts.items():
            row = LANGUAGE.legal(text)
            if row is None:  # it has ended
                longer[text] = probability
                continue
            weights = [w if legal else 0 for w, legal in zip(P((*PROMPT, *text)), row, strict=True)]
            for token, weight in enumerate(weights):
                if weight:
                    longer[(*text, token)] = probability * weight / sum(weights)
        texts = longer
    return texts


def model_draft(drafter=ModelDrafter, legal=LANGUAGE):
    return drafter(TableModel(Q), left, SharedTokens(3), {END}, legal=legal)


def with_forced(draft):
    both = GrammarDrafter(LANGUAGE, draft, Fixed(3), longest=3)
    return both, both


def found_distribution(rule, make_draft, target=TableModel, legal=LANGUAGE):
    def run(randomness):
        draft, gamma = make_draft()
        rounds = decoded(
            speculate(
                target(P),
                draft,
                PROMPT,
                process=left,
                rule=RULES[rule],
                gamma=gamma,
                randomness=randomness,
                max_new_tokens=LENGTH,
                ends=END.__eq__,
                edit=only_legal(legal),
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run)


class Constant:
    """Proposes the same tokens each time, legal or not."""

    seconds = 0.0

    def __init__(self, *tokens):
        self._tokens = tokens

    def begin(self, prompt):
        pass

    def propose(self, text, gamma, randomness):
        tokens = self._tokens[:gamma]
        return Proposal(tokens, [one_hot(token) for token in tokens])


DRAFTS = {
    "a model whose q is masked": lambda: (model_draft(), Fixed(3)),
    "a model whose q is not": lambda: (model_draft(legal=None), Fixed(3)),
    "forced tokens and a model": lambda: with_forced(model_draft()),
    "forced tokens and a model whose q is not masked": lambda: with_forced(model_draft(legal=None)),
    "forced tokens and lookup": lambda: with_forced(SuffixLookup()),
    "lookup": lambda: (SuffixLookup(), Fixed(3)),
    "illegal tokens": lambda: (Constant(1, 1, 1), Fixed(3)),
    "the end and more": lambda: (Constant(0, 1, 2), Fixed(3)),
    "forced tokens and illegal ones": lambda: with_forced(Constant(1, 1, 1)),
}


# --- the distribution -----------------------------------------------------------------------------


def test_plain_text_has_the_masked_distribution():
    def run(randomness):
        rounds = decoded(
            plain(
                TableModel(P),
                PROMPT,
                process=left,
                randomness=randomness,
                max_new_tokens=LENGTH,
                ends=END.__eq__,
                edit=only_legal(LANGUAGE),
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    assert exact_distribution(run) == expected_distribution()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", DRAFTS)
def test_speculative_text_has_the_masked_distribution(rule, draft):
    assert found_distribution(rule, DRAFTS[draft]) == expected_distribution()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("legal", [LANGUAGE, None], ids=["q masked", "q not masked"])
def test_text_with_candidates_has_the_masked_distribution(rule, legal):
    make = lambda: (model_draft(WithCandidates, legal), Fixed(3))  # noqa: E731
    assert found_distribution(rule, make, BranchingTable) == expected_distribution()


class BonusOnly(Language):
    """Mutant: the rows of drafted tokens are not masked, only the bonus's is."""

    def __init__(self, drafted):
        self._drafted = drafted

    def legal(self, generated):
        row = super().legal(generated)
        return row if len(generated) >= self._drafted else np.ones(3, np.bool_)


@pytest.mark.parametrize("rule", RULES)
def test_a_mask_on_the_bonus_row_alone_is_caught(rule):
    make = lambda: (model_draft(legal=None), Fixed(3))  # noqa: E731
    with pytest.raises(UsageError, match="no text of the grammar goes on after these 3 tokens"):
        found_distribution(rule, make, legal=BonusOnly(drafted=3))


@pytest.mark.parametrize("rule", RULES)
def test_a_mask_by_the_text_without_its_drafted_tokens_is_caught(rule, monkeypatch):
    monkeypatch.setattr("edgespec.core.scoring._before", lambda row, text, *_: text[1:])
    with pytest.raises(UsageError, match="no text of the grammar goes on"):
        found_distribution(rule, DRAFTS["a model whose q is not"])


class UnmaskedQ(ModelDrafter):
    """Mutant: draws from the masked q and reports the one without a mask."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        texts = [(*PROMPT, *text[1:], *proposal.tokens[:count]) for count in range(3)]
        rows = [left(np.array(Q(before), dtype=object)) for before in texts]
        return Proposal(proposal.tokens, rows[: len(proposal.tokens)])


@pytest.mark.parametrize("rule", RULES)
def test_another_q_than_the_one_drawn_from_is_caught(rule):
    make = lambda: (model_draft(UnmaskedQ), Fixed(3))  # noqa: E731
    assert found_distribution(rule, make) != expected_distribution()


class DropsDrawn(GrammarDrafter):
    """Mutant: drops illegal tokens that were drawn, too."""

    def _legal_length(self, generated, proposal):
        certain = [one_hot(token) for token in proposal.tokens]
        return super()._legal_length(generated, Proposal(proposal.tokens, certain))


class Drawing(Constant):
    """Draws one token from a q that gives illegal tokens their share."""

    def propose(self, text, gamma, randomness):
        q = left(np.array(Q((*PROMPT, *text[1:])), dtype=object))
        return Proposal([randomness.categorical(q, 0)], [q])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", [GrammarDrafter, DropsDrawn])
def test_to_drop_a_drawn_token_because_it_is_illegal_is_caught(rule, drafter):
    def make():
        both = drafter(LANGUAGE, Drawing(), Fixed(1), longest=1)
        return both, both

    found = found_distribution(rule, make)
    assert (found == expected_distribution()) == (drafter is GrammarDrafter)


# --- drafts ---------------------------------------------------------------------------------------


def propose(drafter, text, gamma=3):
    from edgespec.core.randomness import Seeded

    drafter.begin(PROMPT)
    drafter.gamma()
    return computed(proposed(drafter, [*PROMPT, *text], gamma, Seeded(0)))


def test_what_is_forced_is_drafted_without_a_call_of_the_draft():
    model = TableModel(Q)
    draft = ModelDrafter(model, left, SharedTokens(3), legal=LANGUAGE)
    proposal = propose(with_forced(draft)[0], [1, 0])
    assert list(proposal.tokens) == [1, END]
    assert model.calls == 0


def test_a_looked_up_token_that_is_illegal_is_not_verified():
    proposal = propose(with_forced(Constant(0, 0, 0))[0], [])
    assert list(proposal.tokens) == [0, 0]


def test_forced_tokens_say_nothing_about_the_other_drafter():
    class Observed(Fixed):
        seen = 0

        def observe(self, *counts):
            self.seen += 1

    gammas = Observed(3)
    both = GrammarDrafter(LANGUAGE, Constant(0), gammas, longest=3)
    propose(both, [1, 0])
    both.observe(2, 2, 2, 0)
    assert gammas.seen == 0
    propose(both, [])
    both.observe(1, 1, 1, 0)
    assert gammas.seen == 1


def test_fewer_forced_tokens_are_drafted_after_some_were_rejected():
    class Forcing(Language):
        def forced(self, generated, most):
            return [1] * most

    both = GrammarDrafter(Forcing(), Constant(), Fixed(3), longest=12)
    counts = []
    for accepted in (12, 1, 0, 2, 6, 12):
        proposal = propose(both, [], gamma=both.gamma())
        counts.append(len(proposal.tokens))
        both.observe(counts[-1], counts[-1], accepted, 0)
    assert counts == [12, 12, 4, 2, 6, 12]


def test_a_draft_that_has_no_legal_token_stops():
    class OnlyEnd(Language):
        def legal(self, generated):
            return np.array([False, False, True])

    draft = ModelDrafter(TableModel(Q, vocab_size=2), left, SharedTokens(2), legal=OnlyEnd())
    draft.begin(PROMPT)
    assert not computed(proposed(draft, PROMPT, 3, None)).tokens


# --- the mask -------------------------------------------------------------------------------------


def test_a_mask_comes_after_other_changes_and_keeps_the_model_s_row():
    logits = np.array([1.0, 2.0, 3.0], np.float32)
    edit = edit_of(LogitEdits(logit_bias={2: 100}), [], [], 3)
    row = only_legal(LANGUAGE, edit)(logits, [])
    assert row.tolist() == [1.0, 2.0, -math.inf]
    assert row.dtype == np.float32
    assert logits.tolist() == [1.0, 2.0, 3.0]


def test_options_that_leave_no_token_are_named():
    logits = np.zeros(3, np.float32)
    edit = only_legal(LANGUAGE, edit_of(LogitEdits(min_tokens=9), [], [END], 3))
    with pytest.raises(UsageError, match="after 3 tokens, the grammar and the other options"):
        edit(logits, [0, 1, 1])
