"""How fast a pair will be, from its cost curve and from how often its draft would be right.

A trace says, for every position of a text of the target's, with which probability the first,
second, … drafted token would be accepted there. Nothing is generated with the draft to make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.cost_model import Costs
from edgespec.core.distribution import Distribution, Processor
from edgespec.core.model import Model
from edgespec.core.randomness import Seeded
from edgespec.drafters.prompt_lookup import PromptLookup
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = ["Trace", "lookup_trace", "mean_acceptance", "model_trace", "predicted_speedup"]


@dataclass(frozen=True)
class Trace:
    """How a draft would have fared along a text.

    Attributes:
        probabilities: probabilities[i][k] is the probability that drafted token k is accepted in a round that starts
            at position i, given that those before it were.
        ended: the text ended by itself, not at a limit, so a last round may draft beyond its end.
    """

    probabilities: list[list[float]]
    ended: bool = False


def model_trace(
    target: Model,
    draft: Model,
    vocabulary: Vocabulary,
    prompt: Sequence[int],
    text: Sequence[int],
    process: Processor,
    longest: int,
    *,
    ended: bool = False,
) -> Trace:
    """Acceptance of a draft model along a text: α_i = Σ_x min(p_i(x), q_i(x)) (Theorem 3.5).

    For greedy decoding it is 1 where both choose the same token and 0 elsewhere.
    """
    rows = target.score([target.prefill(prompt), *text[:-1]])
    distributions = [process(row) for row in rows]
    read = [draft.prefill(vocabulary.to_draft_ids(prompt)), *vocabulary.to_draft_ids(text[:-1])]
    begins = target.length - len(read), draft.length

    def probabilities(start: int, guesses: Iterable[npt.NDArray[np.float32]]) -> list[float]:
        qs = (vocabulary.distribution(process, guess) for guess in guesses)
        return [_overlap(p, q) for p, q in zip(distributions[start:], qs, strict=False)]

    every = probabilities(0, draft.score(read))
    found = [every[start : start + longest] for start in range(len(text))]
    for start in reversed(range(len(text) - 1)):
        # With a target that has been no further than a round there would find it.
        target.rewind(begins[0] + start)
        draft.rewind(begins[1] + start)
        ahead = read[start : start + longest]
        found[start] = probabilities(start, (draft.score([token])[0] for token in ahead))
        if draft.valid_length == draft.length:
            break  # it does not look at the target: one reading has told all
    return Trace(found, ended)


def lookup_trace(
    prompt: Sequence[int], text: Sequence[int], longest: int, *, ended: bool = False
) -> Trace:
    """Acceptance of prompt lookup along a text: 1 for a right token, 0 from the first wrong one.

    The text itself is drawn from p, so whether it continues as looked up is a sample of p(token).
    """
    lookup = PromptLookup()
    lookup.begin(prompt)
    randomness = Seeded(0)
    probabilities = []
    for start in range(len(text)):
        proposal = lookup.propose([prompt[-1], *text[:start]], longest, randomness)
        actual = text[start : start + len(proposal.tokens)]
        probabilities.append([float(a == b) for a, b in zip(proposal.tokens, actual, strict=False)])
    return Trace(probabilities, ended)


def mean_acceptance(traces: Sequence[Trace]) -> float:
    """α: the probability of a round's first drafted token, where there is one."""
    first = [
        probabilities[0]
        for trace in traces
        for probabilities in trace.probabilities
        if probabilities
    ]
    return float(np.mean(first)) if first else 0.0


def predicted_speedup(traces: Sequence[Trace], costs: Costs, gamma: int) -> float:
    """Time of plain decoding divided by the expected time with γ drafted tokens a round.

    Without the first round of each text, which also reads the prompt: so are speeds measured.
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
    """The expected cost from each position where a round may start, and from the end."""
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
    """The probabilities of the tokens drafted from `start`: behind a limit there is nothing to draft."""
    left = len(trace.probabilities) - start
    return trace.probabilities[start][: min(gamma, left if trace.ended else left - 1)]


def _outcomes(drafted: Sequence[float], left: int) -> Iterator[tuple[int, float]]:
    """How many of the tokens left a round may emit, and with which probability."""
    reached = 1.0  # the probability that all drafted tokens so far were accepted
    for accepted, probability in enumerate(drafted):
        yield accepted + 1, reached * (1 - probability)
        reached *= probability
    yield min(len(drafted) + 1, left), reached


def _expected_round(drafted: Sequence[float], left: int, costs: Costs, gamma: int) -> float:
    """What a round costs: a draft that misses the end of a text goes on beyond it."""
    if len(drafted) < left:
        return costs.round(len(drafted))
    found_end = float(np.prod(drafted))
    return found_end * costs.round(len(drafted)) + (1 - found_end) * costs.round(gamma)


def _overlap(p: Distribution, q: Distribution) -> float:
    places = p.indices_of(q.tokens)
    shared = places < len(p.tokens)
    return float(np.minimum(p.probabilities[places[shared]], q.probabilities[shared]).sum())
