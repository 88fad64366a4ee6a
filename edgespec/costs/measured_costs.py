"""Costs of rounds by the clock: what they took in this process, guesses until then.

Only for text that does not depend on γ: greedy text, and sampled text with the coupled rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from edgespec.costs.controller import Controller
from edgespec.costs.cost_model import Costs
from edgespec.costs.time_curve import TimeCurve

__all__ = ["Clock", "DraftingTimes", "MeasuredCosts", "Timed", "VerificationTimes"]

Clock = Callable[[], float]
SHORT = 256  # positions; times of calls are kept for caches of up to so many, twice as many, …


@runtime_checkable
class HasSeconds(Protocol):
    """A drafter, as far as its times go."""

    @property
    def seconds(self) -> float: ...


@runtime_checkable
class HasLength(Protocol):
    """A target, as far as the length of its cache goes."""

    @property
    def length(self) -> int: ...


class VerificationTimes:
    """What rounds took without their drafting, by rows of the target's call and by cache length.

    They include the loop's own work. A range of lengths without measurements takes over the curve
    of the range before it in time.

    Args:
        guess: costs of rounds whose drafter runs no model.
    """

    PLAIN = 64  # rounds between two measurements of a plain step
    FIRST_PLAIN = 6  # rounds before the first

    def __init__(self, guess: Costs) -> None:
        first, *others = guess.verify
        self._curve = TimeCurve([first, *(v + guess.overhead for v in others)])
        self._curves = {0: self._curve}
        self._last_plain = self.FIRST_PLAIN - self.PLAIN
        self.rounds = 0

    def begin(self, length: int) -> None:
        """Starts a round with so many positions in the target's cache."""
        self.rounds += 1
        size = (length // SHORT).bit_length()
        if size not in self._curves and (guess := self.seconds()) is not None:
            self._curves[size] = TimeCurve(guess)
        self._curve = self._curves.get(size, self._curve)

    def add(self, rows: int, seconds: float) -> None:
        """Reports the round."""
        self._curve.add(rows, seconds, self.rounds)
        if rows == 1:
            self._last_plain = self.rounds

    def seconds(self) -> list[float] | None:
        """[longest + 1] times of calls with 1, 2, … rows at the present length, if known."""
        return self._curve.seconds(self.rounds)

    @property
    def is_plain_step_due(self) -> bool:
        """Whether a plain step should be timed again: where drafting always pays there is none."""
        return self.rounds - self._last_plain >= self.PLAIN


class DraftingTimes:
    """What drafting took in rounds, by the number of drafted tokens.

    Args:
        drafter: its `seconds` are what drafting took so far.
        guess: costs of rounds with it.
        without: costs of rounds whose drafter runs no model; the overheads' difference is the
            draft's.
    """

    LEAST = 1e-3  # guess of c for a drafter that says it costs nothing

    def __init__(self, drafter: HasSeconds, guess: Costs, without: Costs) -> None:
        self.drafter = drafter
        self._guess = guess.draft, max(0.0, guess.overhead - without.overhead)
        token, first = max(guess.draft, self.LEAST), self._guess[1]
        self._curve = TimeCurve([first + token * (n + 1) for n in range(max(1, guess.longest))])

    def add(self, tokens: int, seconds: float, round_number: int) -> None:
        self._curve.add(tokens, seconds, round_number)

    def costs(self, step: float, round_number: int) -> tuple[float, float]:
        """c and what a round's drafting costs in addition, in plain steps of `step` seconds."""
        found = self._curve.seconds(round_number)
        if found is None:
            return self._guess
        token = (found[-1] - found[0]) / max(1, len(found) - 1)
        return token / step, max(0.0, found[0] - token) / step


class MeasuredCosts:
    """Costs of rounds with one drafter, as far as the clock knows them.

    Args:
        guess: until the first rounds were timed.
        drafting: None for a drafter that runs no model.
    """

    KEPT = 8  # rounds for which costs are not computed anew
    may_change = True

    def __init__(
        self, guess: Costs, verification: VerificationTimes, drafting: DraftingTimes | None = None
    ) -> None:
        self._guess = guess
        self._verification = verification
        self._drafting = drafting
        self._costs = guess
        self._next = 0  # round in which they are computed anew

    def now(self) -> Costs:
        """The costs at the present length of the target's cache."""
        rounds = self._verification.rounds
        if rounds >= self._next:
            self._next = rounds + self.KEPT
            self._costs = self._computed(rounds)
        return self._costs

    def _computed(self, round_number: int) -> Costs:
        seconds = self._verification.seconds()
        if seconds is None:
            return self._guess
        step = seconds[0]
        draft = overhead = 0.0
        if self._drafting is not None:
            draft, overhead = self._drafting.costs(step, round_number)
        return Costs([value / step for value in seconds], draft, overhead)


class Timed:
    """A controller whose rounds are timed, from the question for γ to the report.

    What the loop's consumer does between rounds does not count. The first draft of a text is not
    counted either, since it may include reading the prompt.

    Args:
        controller: chooses γ, by `MeasuredCosts` with these times.
        target: of the text.
        drafting: None if no drafter of the text runs a model.
        clock: returns seconds.
    """

    def __init__(
        self,
        controller: Controller,
        target: HasLength,
        verification: VerificationTimes,
        drafting: DraftingTimes | None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._controller = controller
        self._target = target
        self._verification = verification
        self._drafting = drafting
        self._clock = clock
        self._began = self._drafted_before = 0.0
        self._has_drafted = False

    def gamma(self) -> int:
        self._verification.begin(self._target.length)
        self._drafted_before = self._drafting_seconds()
        self._began = self._clock()
        return 0 if self._verification.is_plain_step_due else self._controller.gamma()

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        drafting = self._drafting_seconds() - self._drafted_before
        seconds = self._clock() - self._began - drafting
        self._verification.add(1 + drafted + candidates, seconds)
        if drafting > 0 and self._drafting is not None:
            if self._has_drafted:
                self._drafting.add(drafted, drafting, self._verification.rounds)
            self._has_drafted = True
        self._controller.observe(drafted, evaluated, accepted, candidates)

    def _drafting_seconds(self) -> float:
        return self._drafting.drafter.seconds if self._drafting else 0.0
