"""What rounds cost on this device, timed in the loop that will run them.

A model that is timed alone in a tight loop is faster than in generation. There the processor's
caches hold the other model's data, widths change from call to call, and Python works in between. So
whole rounds of real texts are timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from edgespec.core.distribution import one_hot
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Drafter, Proposal
from edgespec.core.randomness import Randomness
from edgespec.core.stats import RoundTime, Stats
from edgespec.costs.cost_model import Costs
from edgespec.drafters.registry import DRAFTERS
from edgespec.pair.generation_options import GenerationOptions, sampling_options
from edgespec.pair.pair import Pair

__all__ = [
    "MAX_GAMMA",
    "Repeat",
    "RoundCosts",
    "drafted_token_seconds",
    "plain_step_seconds",
    "round_costs",
]

GAMMAS = (1, 2, 3, 4, 6, 8, 12, 16)  # timed; the others are interpolated
MAX_GAMMA = GAMMAS[-1]
PROMPTS = 3
ROUNDS = 12  # of a text, at least, unless its draft is good
MIN_COST = 0.01  # in plain steps


class Repeat:
    """A drafter that costs nothing and always has γ tokens, to time verification alone."""

    seconds = 0.0

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def propose(self, sequence: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        tokens = [sequence[-1]] * gamma
        return Proposal(tokens, [one_hot(token) for token in tokens])


@dataclass(frozen=True)
class RoundCosts:
    """Costs in plain steps, and the time of a plain step with its share of the loop."""

    costs: Costs
    step_seconds: float


def round_costs(
    pair: Pair, prompts: Sequence[Sequence[int]], kind: str, sampling: Sampling
) -> RoundCosts:
    """Median times of rounds with γ drafted tokens, in turns with plain steps.

    Args:
        prompts: token ids of texts of the kind that the pair is for.
        kind: name of the drafter; for one that runs no model, verification alone is timed.
        sampling: the options that it will be used with.
    """
    options = sampling_options(sampling) | {"seed": 0, "ignore_eos": True}
    draft: str | Drafter = kind if DRAFTERS[kind].uses_model else Repeat()
    rounds: dict[int, list[RoundTime]] = {gamma: [] for gamma in (0, *GAMMAS)}
    for prompt in prompts[:PROMPTS]:
        for gamma, times in rounds.items():
            # Enough for a second full round where a good draft is right from the first one on.
            options["max_new_tokens"] = ROUNDS + 2 * (gamma + 1)
            if gamma:
                way: GenerationOptions = {"draft": draft, "gamma": gamma}
            else:
                way = {"draft": False}
            stats = pair.generate(prompt, **(options | way)).stats
            times += [time for time in _later(stats) if time.drafted == gamma]
    return _costs(rounds, DRAFTERS[kind].cost)


def _costs(rounds: Mapping[int, Sequence[RoundTime]], cost: float | None) -> RoundCosts:
    """Costs from the times of rounds, by their number of drafted tokens.

    Args:
        cost: c of a drafter that runs no model; None measures it.
    """
    step = median(time.seconds for time in rounds[0])
    timed = {
        gamma: median(time.seconds for time in times) / step
        for gamma, times in rounds.items()
        if times
    }
    token = _drafted_token_seconds([time for times in rounds.values() for time in times])
    c = token / step if cost is None and token is not None else 0.0
    every = np.interp(range(max(timed) + 1), list(timed), list(timed.values())).tolist()
    # c is a median, and a round's first draft call costs more, so a difference may be negative.
    verify = [max(value - gamma * c, MIN_COST) for gamma, value in enumerate(every)]
    return RoundCosts(Costs(verify, c if cost is None else cost), step)


def plain_step_seconds(texts: Sequence[Stats]) -> float:
    """Median time of a plain step in texts that were decoded plainly."""
    return median(time.seconds for stats in texts for time in _later(stats))


def drafted_token_seconds(texts: Sequence[Stats]) -> float | None:
    """Median time in the draft of a drafted token; None where nothing was drafted."""
    return _drafted_token_seconds([time for stats in texts for time in _later(stats)])


def _drafted_token_seconds(times: Sequence[RoundTime]) -> float | None:
    seconds = [time.draft_seconds / time.drafted for time in times if time.drafted]
    return median(seconds) if seconds else None


def _later(stats: Stats) -> list[RoundTime]:
    """All rounds but the first, which includes the prefill, if there are others."""
    return stats.rounds[1:] or stats.rounds
