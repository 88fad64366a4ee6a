"""How many tokens to draft in a round: γ."""

from __future__ import annotations

from numbers import Integral
from typing import Protocol, runtime_checkable

from edgespec.costs.cost_model import CostSource
from edgespec.errors import UsageError, shortened

__all__ = ["Adaptive", "Confident", "Controller", "Fixed", "controller", "gamma_number"]

MAX_DIGITS = 9  # of a γ that is given as text; Python refuses to convert thousands


@runtime_checkable
class Controller(Protocol):
    """Chooses γ for each round."""

    def gamma(self) -> int:
        """How many tokens to draft next."""
        ...

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        """Reports a round: how many tokens were drafted, looked at by the rule, and accepted, and
        how many candidates were scored beside them."""
        ...


class Fixed:
    """Always the same γ."""

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def gamma(self) -> int:
        return self._gamma

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        pass

    def expected_speedup(self) -> float:
        """The same for every fixed γ, so that of several drafters the first is used."""
        return 1.0

    def decay(self) -> None:
        pass


class Adaptive:
    """The γ with the largest expected speed-up, from the cost curve and the acceptance rate so far.

    γ = 0 switches drafting off. The acceptance rate is a running mean over evaluated tokens, and
    starts at a prior of small weight. While drafting is off, one token is drafted now and then, at
    growing intervals, to see whether it pays again: soon at first, since a busy machine may have
    ended it, and at once after one that was accepted and so paid for itself; never if it could not
    pay at acceptance 1 and the costs do not change.

    It reads no clock. Where `costs` do not either, the same text, pair and profile give the same γ.

    Args:
        costs: asked after each round; `Costs` measured by `edgespec tune` or estimated, or
            `MeasuredCosts`.
        guess: prior acceptance rate.
        weight: of the prior, in evaluated tokens.
        memory: decay per evaluated token; also the decay towards the prior for every round in
            which another drafter ran.
    """

    FIRST_PAUSE = 16  # rounds before the first probe
    PROBE = 0.015  # largest share of the time that later probes may cost
    DOUBLINGS = 4  # of the pause, at most

    def __init__(
        self, costs: CostSource, *, guess: float = 0.7, weight: float = 1.5, memory: float = 0.96
    ) -> None:
        self._source = costs
        self._prior = guess * weight, weight
        self._memory = memory
        self._failed_probes = 1  # since drafting paid; that a text begins without it counts as one
        self._idle_rounds = 0  # since the last draft
        self._update(*self._prior)

    def _update(self, accepted: float, evaluated: float) -> None:
        """Sets the acceptance counts, and the best γ and speed-up that follow from them."""
        self._accepted, self._evaluated = accepted, evaluated
        self._costs = self._source.now()
        self._best, self._expected_speedup = self._costs.best(accepted / evaluated)

    def gamma(self) -> int:
        if self._best == 0 and self._idle_rounds >= self._pause and self._can_pay:
            return 1
        return self._best

    @property
    def _can_pay(self) -> bool:
        return self._source.may_change or self._costs.best(1.0)[0] > 0

    @property
    def _pause(self) -> float:
        """Rounds between two probes."""
        if not self._failed_probes:
            return self.FIRST_PAUSE
        pause = max(self.FIRST_PAUSE, (self._costs.round(1) - 1) / self.PROBE)
        return float(pause * 2 ** min(self._failed_probes - 1, self.DOUBLINGS))

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        if not drafted:
            self._idle_rounds += 1
            if self._source.now() is not self._costs:
                self._update(self._accepted, self._evaluated)
            return
        was_probe = self._idle_rounds >= self._pause
        decay = self._memory**evaluated
        self._update(decay * self._accepted + accepted, decay * self._evaluated + evaluated)
        if self._best:
            self._failed_probes = 0
        elif was_probe:
            if accepted and self._costs.round(1) < 2:
                return  # it paid for itself
            self._failed_probes += 1
        self._idle_rounds = 0

    def expected_speedup(self) -> float:
        """Expected speed-up of drafting now, over plain decoding."""
        return self._expected_speedup

    def decay(self) -> None:
        """Moves the acceptance counts towards the prior: another drafter ran in this round."""
        accepted, evaluated = self._prior
        self._update(
            accepted + self._memory * (self._accepted - accepted),
            evaluated + self._memory * (self._evaluated - evaluated),
        )


class Confident(Adaptive):
    """`Adaptive`, and token by token one more while its expected gain exceeds its cost.

    For drafters that know the probability of their own tokens. The acceptance rate decides whether
    to draft at all, and allows at most twice the best fixed γ: a draft that is sure and wrong is
    soon found out.
    """

    def gamma(self) -> int:
        return min(2 * self._best, self._costs.longest) if self._best else super().gamma()

    def should_continue(self, probability: float, rows: int) -> bool:
        """Whether another drafted token brings more than its time would bring elsewhere.

        Args:
            probability: that all tokens drafted so far in this round are accepted.
            rows: positions of the verification without it.
        """
        acceptance = self._accepted / self._evaluated
        cost = self._costs.draft + self._costs.marginal_cost(rows)
        return probability * acceptance > cost * max(1.0, self._expected_speedup)

    def worth_candidate(self, probability: float, rows: int) -> bool:
        """Whether a candidate brings more than its time; it costs no call of the draft.

        Args:
            probability: that it will be the correction.
            rows: positions of the verification without it.
        """
        return probability > self._costs.marginal_cost(rows) * max(1.0, self._expected_speedup)


def controller(
    gamma: int | str, costs: CostSource, adaptive: type[Adaptive] = Adaptive
) -> Fixed | Adaptive:
    """The controller that a user asked for.

    Args:
        gamma: tokens to draft per round, or "auto".
        costs: of the models in use, up to the largest γ that the target verifies exactly.
        adaptive: the class of the controller for "auto".

    Raises:
        UsageError: γ is no whole number, or larger than the target verifies exactly.
    """
    if gamma == "auto":
        return adaptive(costs)
    number = gamma_number(gamma)
    longest = costs.now().longest
    if number > longest:
        raise UsageError(
            f"gamma is {shortened(number)}; this target was found exact for at most {longest} "
            "drafted tokens"
        )
    return Fixed(number)


def gamma_number(gamma: object) -> int:
    """A fixed γ, from a number or its digits.

    Raises:
        UsageError: it is no whole number from 0.
    """
    if isinstance(gamma, Integral) and not isinstance(gamma, bool) and int(gamma) >= 0:
        return int(gamma)
    if isinstance(gamma, str) and gamma.isdecimal() and len(gamma) <= MAX_DIGITS:
        return int(gamma)
    raise UsageError(f"gamma is {shortened(gamma)}; give a whole number from 0, or 'auto'")
