"""How many tokens to draft in a round: γ."""

from __future__ import annotations

from typing import Protocol

from edgespec.core.cost_model import Costs
from edgespec.errors import UsageError

__all__ = ["Adaptive", "Confident", "Controller", "Fixed", "controller"]


class Controller(Protocol):
    def gamma(self) -> int:
        """How many tokens to draft next."""
        ...

    def observe(self, drafted: int, evaluated: int, accepted: int) -> None:
        """What became of a round's draft."""
        ...


class Fixed:
    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def gamma(self) -> int:
        return self._gamma

    def observe(self, drafted: int, evaluated: int, accepted: int) -> None:
        pass

    def expected_speedup(self) -> float:
        """The same for all, so that their order decides."""
        return 1.0

    def decay(self) -> None:
        pass


class Adaptive:
    """The γ that the cost curve and the acceptance so far make fastest; 0 switches drafting off.

    Acceptance is a running mean over the tokens that verification looked at, begun with a guess
    that counts for little. While drafting is off, one token is drafted now and then to see whether
    it has become worth while, at growing intervals; never where no acceptance would make it so.

    It reads no clock: the same text, pair and profile give the same γ, and so a seed
    gives the same text.

    Args:
        costs: measured by `edgespec tune`, or estimated.
        guess: acceptance before anything is known, counting as much as `weight` tokens.
        memory: what each further token leaves of the weight of those before it, and each round
            that another draft has of what lies between acceptance and the guess.
    """

    FIRST_PAUSE = 16  # rounds, or as many as keep a probe's cost below PROBE of them
    PROBE = 0.015
    DOUBLINGS = 4  # of the pause, at most

    def __init__(
        self, costs: Costs, *, guess: float = 0.7, weight: float = 1.5, memory: float = 0.96
    ) -> None:
        self._costs = costs
        self._ever_pays = costs.best(1.0)[0] > 0
        self._first = guess * weight, weight
        self._memory = memory
        self._failed = 0  # probes in a row
        self._idle = 0  # rounds since the last draft
        self._judge(*self._first)

    def _judge(self, accepted: float, evaluated: float) -> None:
        """What a draft is worth by what became of its tokens."""
        self._accepted, self._evaluated = accepted, evaluated
        self._best, self._expected_speedup = self._costs.best(accepted / evaluated)

    def gamma(self) -> int:
        if self._best == 0 and self._idle >= self._pause and self._ever_pays:
            return 1
        return self._best

    @property
    def _pause(self) -> float:
        first = max(self.FIRST_PAUSE, (self._costs.round(1) - 1) / self.PROBE)
        return float(first * 2 ** min(self._failed, self.DOUBLINGS))

    def observe(self, drafted: int, evaluated: int, accepted: int) -> None:
        if not drafted:
            self._idle += 1
            return
        probed = self._idle >= self._pause
        self._idle = 0
        kept = self._memory**evaluated
        self._judge(kept * self._accepted + accepted, kept * self._evaluated + evaluated)
        if self._best:
            self._failed = 0
        elif probed:
            self._failed += 1

    def expected_speedup(self) -> float:
        """The speed-up to expect of drafting now."""
        return self._expected_speedup

    def decay(self) -> None:
        """Another draft was asked: what this one was worth is slowly forgotten."""
        accepted, evaluated = self._first
        self._judge(
            accepted + self._memory * (self._accepted - accepted),
            evaluated + self._memory * (self._evaluated - evaluated),
        )


class Confident(Adaptive):
    """For a draft that knows how sure it is: token by token, one more while it is worth its cost.

    Acceptance so far says whether to draft at all, and at most twice what would be best for a draft
    that does not know: one that is sure and wrong is soon found out.
    """

    def gamma(self) -> int:
        return min(2 * self._best, self._costs.longest) if self._best else super().gamma()

    def should_continue(self, probability: float, rows: int) -> bool:
        """Whether a further token brings more than the time it takes would bring elsewhere.

        Args:
            probability: that all tokens drafted so far in this round are accepted.
            rows: positions that the verification has without it.
        """
        acceptance = self._accepted / self._evaluated
        cost = self._costs.draft + self._costs.marginal_cost(rows)
        return probability * acceptance > cost * max(1.0, self._expected_speedup)

    def worth_candidate(self, probability: float, rows: int) -> bool:
        """Whether a candidate brings more than the time it takes: it costs no call of the draft.

        Args:
            probability: that it will stand at its place.
            rows: positions that the verification has without it.
        """
        return probability > self._costs.marginal_cost(rows) * max(1.0, self._expected_speedup)


def controller(
    gamma: int | str, costs: Costs, adaptive: type[Adaptive] = Adaptive
) -> Fixed | Adaptive:
    """A controller from what a user writes.

    Args:
        gamma: tokens to draft a round, or "auto".
        costs: of the models at hand, up to the most tokens that the target verifies exactly.
        adaptive: what "auto" means for this draft.
    """
    longest = costs.longest
    if gamma == "auto":
        return adaptive(costs)
    if isinstance(gamma, float) or not str(gamma).isdecimal():
        raise UsageError(f"gamma is {gamma!r}; give a whole number from 0, or 'auto'")
    if int(gamma) > longest:
        raise UsageError(
            f"gamma is {gamma}; this target was found exact for at most {longest} drafted tokens"
        )
    return Fixed(int(gamma))
