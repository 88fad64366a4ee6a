"""How fast a pair will be, from its cost curve and from how often its draft would be right.

A trace says, for every position of a text of the target's, with which probability the first,
second, … drafted token would be accepted there. Nothing is generated with the draft to make it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgespec.costs import Costs
from edgespec.distribution import Distribution, Sampling
from edgespec.draft import PromptLookup
from edgespec.model import Model
from edgespec.randomness import Seeded
from edgespec.vocabulary import Vocabulary

__all__ = ["Trace", "lookup_trace", "mean_acceptance", "model_trace", "predicted_speedup"]

# trace[i][k]: the chance that drafted token k is accepted in a round that starts at position i,
# given that those before it were.
Trace = list[list[float]]


def model_trace(
    target: Model,
    draft: Model,
    vocabulary: Vocabulary,
    prompt: Sequence[int],
    text: Sequence[int],
    process: Sampling,
    longest: int,
) -> Trace:
    """Acceptance of a draft model along a text: α_i = Σ_x min(p_i(x), q_i(x)) (Theorem 3.5).

    For greedy decoding it is 1 where both choose the same token and 0 elsewhere.
    """
    rows = target.score([target.prefill(prompt), *text[:-1]])
    first = draft.prefill(vocabulary.shown(prompt))
    guesses = draft.score([first, *vocabulary.shown(text[:-1])])
    chances = [
        _overlap(process(row), vocabulary.law(process, guess))
        for row, guess in zip(rows, guesses, strict=True)
    ]
    return [chances[start : start + longest] for start in range(len(text))]


def lookup_trace(prompt: Sequence[int], text: Sequence[int], longest: int) -> Trace:
    """Acceptance of prompt lookup along a text: 1 for a right token, 0 from the first wrong one.

    The text itself is drawn from p, so whether it continues as looked up is a sample of p(token).
    """
    lookup = PromptLookup()
    lookup.begin(prompt)
    randomness = Seeded(0)
    trace = []
    for start in range(len(text)):
        proposal = lookup.propose([prompt[-1], *text[:start]], longest, randomness)
        actual = text[start : start + len(proposal.tokens)]
        trace.append([float(a == b) for a, b in zip(proposal.tokens, actual, strict=False)])
    return trace


def mean_acceptance(traces: Sequence[Trace]) -> float:
    """α: the chance of a round's first drafted token, where there is one."""
    first = [chances[0] for trace in traces for chances in trace if chances]
    return float(np.mean(first)) if first else 0.0


def predicted_speedup(traces: Sequence[Trace], costs: Costs, gamma: int) -> float:
    """Time of plain decoding divided by the expected time with γ drafted tokens a round."""
    plain = sum(len(trace) for trace in traces)
    return plain / sum(_expected_cost(trace, costs, gamma) for trace in traces)


def _expected_cost(trace: Trace, costs: Costs, gamma: int) -> float:
    """Backwards over the positions where a round may start."""
    length = len(trace)
    to_end = [0.0] * (length + 1)
    for start in range(length - 1, -1, -1):
        chances = trace[start][: min(gamma, length - start - 1)]
        expected = costs.round(len(chances))
        reached = 1.0  # the chance that all drafted tokens so far were accepted
        for accepted, chance in enumerate(chances):
            expected += reached * (1 - chance) * to_end[start + accepted + 1]
            reached *= chance
        expected += reached * to_end[start + len(chances) + 1]
        to_end[start] = expected
    return to_end[0]


def _overlap(p: Distribution, q: Distribution) -> float:
    places, shared = p.places(q.tokens)
    return float(np.minimum(p.probabilities[places[shared]], q.probabilities[shared]).sum())
