"""The speed-up of a pair, predicted from its cost curve and from its draft's acceptance.

A trace has, for every position of a text that the target generated, the probability that the first,
second, … drafted token would be accepted there. No text is generated with the draft for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.distribution import Distribution, Processor
from edgespec.core.draft import Drafter, proposed
from edgespec.core.model import Model, block_model_of
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = [
    "Trace",
    "agreement",
    "mean_acceptance",
    "model_trace",
    "predicted_speedup",
    "replay_trace",
]


@dataclass(frozen=True)
class Trace:
    """Acceptance of a draft along a text.

    Attributes:
        probabilities: probabilities[i][k] is the probability that drafted token k is accepted in a
            round that starts at position i, given that those before it were accepted.
        ended: the text ended by itself, not at a limit, so a last round may draft beyond its end.
    """

    probabilities: list[list[float]]
    ended: bool = False


def model_trace(
    target: Model,
    draft: Model,
    vocabulary: Vocabulary,
    prompt: Sequence[int],
    sequence: Sequence[int],
    process: Processor,
    longest: int,
    *,
    ended: bool = False,
) -> Trace:
    """Acceptance of a draft model along a text, with the default rule of its options.

    For sampled text `agreement`, the coupled rule's; for greedy text it is 1 where both have the
    same arg-max and 0 elsewhere.
    """
    rows = target.score([target.prefill(prompt), *sequence[:-1]])
    distributions = [process(row) for row in rows]
    pending = draft.prefill(vocabulary.prompt(prompt, None)[0])
    read = [[pending], *(vocabulary.to_draft_ids([token]) for token in sequence[:-1])]
    ends = [*itertools.accumulate(len(ids) for ids in read)]  # of the draft's positions
    begins = target.length - len(read), draft.length
    block_model = block_model_of(draft)
    longest = min(longest, block_model.block) if block_model else longest

    def probabilities(start: int, guesses: Iterable[npt.NDArray[np.float32]]) -> list[float]:
        qs = (vocabulary.distribution(process, guess) for guess in guesses)
        return [agreement(p, q) for p, q in zip(distributions[start:], qs, strict=False)]

    every = probabilities(0, draft.score(list(itertools.chain(*read)))[[end - 1 for end in ends]])
    found = [every[start : start + longest] for start in range(len(sequence))]
    for start in reversed(range(len(sequence) - 1)):
        # Scored again with the target rewound to where a round that starts here would find it.
        target.rewind(begins[0] + start)
        draft.rewind(begins[1] + ends[start] - len(read[start]))
        ahead = read[start : start + longest]
        found[start] = probabilities(start, (draft.score(ids)[-1] for ids in ahead))
        if draft.valid_length == draft.length:
            break  # it does not read the target's hidden states: one pass is enough
    return Trace(found, ended)


def replay_trace(
    drafter: Drafter,
    prompt: Sequence[int],
    sequence: Sequence[int],
    longest: int,
    *,
    ended: bool = False,
) -> Trace:
    """Acceptance of a drafter whose tokens are certain, along a text: 1 for a right token, else 0.

    The text itself is drawn from p, so whether it continues as drafted is a sample of p(token).
    """
    drafter.begin(prompt)
    randomness = Seeded(0)
    probabilities = []
    for start in range(len(sequence)):
        proposal = computed(proposed(drafter, [prompt[-1], *sequence[:start]], longest, randomness))
        actual = sequence[start : start + len(proposal.tokens)]
        probabilities.append([float(a == b) for a, b in zip(proposal.tokens, actual, strict=False)])
    return Trace(probabilities, ended)


def mean_acceptance(traces: Sequence[Trace]) -> float:
    """α: the mean acceptance of a round's first drafted token."""
    first = [
        probabilities[0]
        for trace in traces
        for probabilities in trace.probabilities
        if probabilities
    ]
    return float(np.mean(first)) if first else 0.0


def predicted_speedup(traces: Sequence[Trace], costs: Costs, gamma: int) -> float:
    """Time of plain decoding divided by the expected time with γ drafted tokens a round.

    The first round of each text, which includes the prefill, is left out, as in measured speeds.
    """
    tokens = cost = 0.0
    for trace in traces:
        length = len(trace.probabilities)
        to_end = _costs_to_end(trace, costs, gamma)
        for emitted, probability in _outcomes(_drafted(trace, 0, gamma), length):
            tokens += probability * (length - emitted)
            cost += probability * to_end[emitted]
    return tokens / cost if cost else 1.0


def _costs_to_end(trace: Trace, costs: Costs, gamma: int) -> list[float]:
    """The expected cost from each position to the end of the text; 0 at the end."""
    length = len(trace.probabilities)
    to_end = [0.0] * (length + 1)
    for start in range(length - 1, -1, -1):
        drafted, left = _drafted(trace, start, gamma), length - start
        to_end[start] = _expected_round(drafted, left, costs, gamma) + sum(
            probability * to_end[start + emitted]
            for emitted, probability in _outcomes(drafted, left)
        )
    return to_end


def _drafted(trace: Trace, start: int, gamma: int) -> list[float]:
    """The probabilities of the tokens drafted from `start`; none is drafted beyond a limit."""
    left = len(trace.probabilities) - start
    return trace.probabilities[start][: min(gamma, left if trace.ended else left - 1)]


def _outcomes(drafted: Sequence[float], left: int) -> Iterator[tuple[int, float]]:
    """The numbers of tokens that a round may emit, with their probabilities."""
    reached = 1.0  # the probability that all drafted tokens so far were accepted
    for accepted, probability in enumerate(drafted):
        yield accepted + 1, reached * (1 - probability)
        reached *= probability
    yield min(len(drafted) + 1, left), reached


def _expected_round(drafted: Sequence[float], left: int, costs: Costs, gamma: int) -> float:
    """Expected cost of a round: a draft that misses the end of a text drafts beyond it."""
    if len(drafted) < left:
        return costs.round(len(drafted))
    found_end = float(np.prod(drafted))
    return found_end * costs.round(len(drafted)) + (1 - found_end) * costs.round(gamma)


def agreement(p: Distribution, q: Distribution) -> float:
    """The probability that p and q choose the same token by the same noise (the coupled rule).

    Σ_x 1 / Σ_y max(p(y)/p(x), q(y)/q(x)), over the x that both have (Moulton and Jiang 2018,
    arXiv 1809.04052). By decreasing p(y)/q(y) the maximum is the first quotient down to x, and the
    second after it.
    """
    indices = p.indices_of(q.tokens)
    shared = indices < len(p.tokens)
    p_shared = p.probabilities[indices[shared]].astype(np.float64)
    q_shared = q.probabilities[shared].astype(np.float64)
    possible = (p_shared > 0) & (q_shared > 0)
    p_x, q_x = p_shared[possible], q_shared[possible]
    order = np.argsort(-(p_x / q_x))
    p_x, q_x = p_x[order], q_x[order]
    p_alone, q_alone = max(0.0, 1 - p_x.sum()), max(0.0, 1 - q_x.sum())
    p_before = p_alone + np.cumsum(p_x)  # x included
    q_after = q_alone + q_x.sum() - np.cumsum(q_x)
    return float((1 / (p_before / p_x + q_after / q_x)).sum())
