"""What rounds cost on this device, timed in the loop that will run them.

Each model in a tight loop of its own is faster than in generation: there it finds the other's
numbers in the caches, widths change from call to call, and Python works in between. Only whole
rounds of real texts say what a round costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from edgespec.core.cost_model import Costs
from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness
from edgespec.core.sampling import Sampling
from edgespec.core.stats import RoundTime, Stats
from edgespec.pair.pair import Pair

__all__ = ["LONGEST", "Repeat", "RoundCosts", "plain_step_seconds", "round_costs"]

GAMMAS = (1, 2, 3, 4, 6, 8, 12, 16)  # timed; what lies between is interpolated
LONGEST = GAMMAS[-1]
PROMPTS = 3
ROUNDS = 12  # of a text, at least, unless its draft is good
LEAST = 0.01  # of a plain step


class Repeat:
    """A draft that costs nothing and always has γ tokens: it shows what verification costs."""

    seconds = 0.0

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        tokens = [text[-1]] * gamma
        return Proposal(tokens, [one_hot(token) for token in tokens])


@dataclass(frozen=True)
class RoundCosts:
    """Costs in plain steps, and what a plain step takes with its share of the loop."""

    costs: Costs
    step_seconds: float


def round_costs(
    pair: Pair, prompts: Sequence[Sequence[int]], kind: str, sampling: Sampling
) -> RoundCosts:
    """Median times of rounds with γ drafted tokens, in turns with plain steps.

    Args:
        prompts: tokens of texts of the kind that the pair is for.
        kind: of the draft: "model", or "lookup", whose tokens cost nothing.
        sampling: options that the pair will be used with.
    """
    options: dict[str, Any] = {"seed": 0, "ignore_eos": True, **sampling.options}
    draft = Repeat() if kind == "lookup" else kind
    rounds: dict[int, list[RoundTime]] = {gamma: [] for gamma in (0, *GAMMAS)}
    for prompt in prompts[:PROMPTS]:
        for gamma, times in rounds.items():
            way = {"draft": draft, "gamma": gamma} if gamma else {"draft": False}
            # Enough for a second full round where a good draft is right from the first one on.
            tokens = ROUNDS + 2 * (gamma + 1)
            text = pair.generate(prompt, max_new_tokens=tokens, **way, **options)
            times += [time for time in _later(text.stats) if time.drafted == gamma]
    step = median(time.seconds for time in rounds[0])
    timed = {
        gamma: median(time.seconds for time in times) / step
        for gamma, times in rounds.items()
        if times
    }
    steps = [t.draft_seconds / t.drafted for times in rounds.values() for t in times if t.drafted]
    c = median(steps) / step if steps else 0.0
    every = np.interp(range(max(timed) + 1), list(timed), list(timed.values())).tolist()
    # c is a median, and the first call of a round is dearer: what is left must stay a cost.
    verify = [max(cost - gamma * c, LEAST) for gamma, cost in enumerate(every)]
    return RoundCosts(Costs(verify, c), step)


def plain_step_seconds(texts: Sequence[Stats]) -> float:
    """Median time of a plain step in texts that were decoded plainly."""
    return median(time.seconds for stats in texts for time in _later(stats))


def _later(stats: Stats) -> list[RoundTime]:
    """All rounds but the first, which also reads the prompt, if there are others."""
    return stats.rounds[1:] or stats.rounds
