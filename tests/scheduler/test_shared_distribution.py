"""Claim: texts that share calls have, each by itself, exactly the target's distribution.

Every random branch of two shipped loops, driven by the shipped scheduler over models whose rows lie
in one buffer, is walked in rational arithmetic. The joint distribution of the two texts must be the
product of their own. Mutants must be caught.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from branches import exact_distribution
from depth import one_in
from edgespec.core.decode import plain, speculate
from edgespec.core.requests import Score
from edgespec.core.verification import block_rule, token_rule
from edgespec.costs.controller import Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.scheduler.load_costs import CallTimes, Load
from edgespec.scheduler.scheduler import Scheduler
from table_batch import TableBatch
from tables import as_distribution, fractions, varying

P = varying([fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)])
Q = varying([fractions(4, 3, 3), fractions(1, 2, 1)], stride=2)
PROMPTS = [[0], [2, 1, 0]]
LENGTHS = [3, 2]
RULES = {"token": token_rule, "block": block_rule}


class SeesTheOthersTokens(TableBatch):
    """Mutant: rows of the second text see one position of the first."""

    def context(self, start, position):
        context = list(super().context(start, position))
        if start and position > 2:
            context[1] = self.buffer.get(1, 0)
        return tuple(context)


class LeavesRejectedTokens(TableBatch):
    """Mutant: what was rejected in an earlier call still counts as the text's first new token."""

    def context(self, start, position):
        context = super().context(start, position)
        self.buffer.setdefault(("first", start), context[-1])
        return (*context[:-1], self.buffer["first", start]) if position == 2 else context


def loops(rule, targets, drafts, randomness):
    for target, draft, prompt, length in zip(
        targets.sequences, drafts.sequences, PROMPTS, LENGTHS, strict=True
    ):
        common = {
            "process": as_distribution,
            "randomness": randomness,
            "max_new_tokens": length,
            "ends": lambda token: False,
        }
        if rule is None:
            yield plain(target, prompt, **common)
        else:
            drafter = ModelDrafter(draft, as_distribution, SharedTokens(3))
            yield speculate(target, drafter, prompt, rule=rule, gamma=Fixed(2), **common)


def joint_distribution(rule, make=TableBatch):
    """Of both texts; and the numbers of calls that both shared."""
    together = []

    def run(randomness):
        targets, drafts = make(P), TableBatch(Q)
        scheduler = Scheduler(targets, Load(CallTimes({"lookup": Costs([1.0, 1.1], 0.0)})))
        sequences = [scheduler.add(loop)[1] for loop in loops(rule, targets, drafts, randomness)]
        while not all(sequence.ended for sequence in sequences):
            scheduler.step()
        together.append(targets.together)
        return tuple(
            tuple(token for round_ in sequence.rounds() for token in round_.tokens)
            for sequence in sequences
        )

    return exact_distribution(run), together


def expected():
    """The product of the two texts' distributions under the target."""
    joint = {((), ()): Fraction(1)}
    for number, (prompt, length) in enumerate(zip(PROMPTS, LENGTHS, strict=True)):
        for _ in range(length):
            longer = {}
            for sequences, probability in joint.items():
                for token, conditional in enumerate(P((*prompt, *sequences[number]))):
                    if conditional:
                        both = list(sequences)
                        both[number] = (*sequences[number], token)
                        longer[tuple(both)] = probability * conditional
            joint = longer
    return joint


@one_in(2)
@pytest.mark.parametrize("rule", [None, *RULES.values()], ids=["plain", *RULES])
def test_two_texts_have_the_product_of_their_distributions(rule):
    found, together = joint_distribution(rule)
    assert found == expected()
    assert min(together) >= 1


@pytest.mark.parametrize("mutant", [SeesTheOthersTokens, LeavesRejectedTokens])
def test_a_mistaken_buffer_is_caught(mutant):
    found, _ = joint_distribution(token_rule, mutant)
    assert found != expected()


def test_a_text_that_asks_for_more_rows_than_a_call_has_gets_them():
    """A draft may have to read a long text that was drafted by lookup meanwhile."""
    batch = TableBatch(P)
    scheduler = Scheduler(batch, Load(CallTimes({"lookup": Costs([1.0, 1.1], 0.0)})))

    def long(sequence):
        rows = yield Score(sequence, [0] * 300)
        assert len(rows) == 300

    live = [scheduler.add(long(sequence))[1] for sequence in batch.sequences]
    for _ in range(3):
        scheduler.step()
    assert all(sequence.ended for sequence in live)
    assert batch.calls == 2
