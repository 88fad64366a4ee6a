"""Costs of rounds while other texts share the calls, by the clock.

With k texts, a row more for each makes a call of k rows more. So verification costs more than for a
text alone, drafting costs less, and γ falls by itself as texts come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgespec.costs.controller import Controller
from edgespec.costs.cost_model import Costs
from edgespec.costs.time_curve import TimeCurve
from edgespec.scheduler.shared_calls import ROWS

__all__ = ["AfterFirst", "LoadCosts", "LoadTimes"]

DRAFT_ROW = 0.02  # guess of what one more row costs a draft's call, in calls of one row


class LoadTimes:
    """What calls took in this process, by their number of rows; guesses until then.

    Args:
        costs: of rounds of a text alone, by the name of the drafter.

    Attributes:
        live: texts that are being written.
    """

    KEPT = 64  # calls for which times are not computed anew

    def __init__(self, costs: Mapping[str, Costs]) -> None:
        self._target = list(costs["lookup"].up_to(ROWS - 1).verify)
        token = costs["model"].draft if "model" in costs else 0.0
        self._draft = [token * (1 + DRAFT_ROW * row) for row in range(ROWS)]
        self._target_curve = TimeCurve(self._target)
        self._draft_curve = TimeCurve(self._draft) if token else None
        self._calls = self._next = 0
        self.live = 1

    def add(self, rows: int, seconds: float, is_draft: bool) -> None:
        """Reports a call."""
        self._calls += 1
        curve = self._draft_curve if is_draft else self._target_curve
        if curve is not None:
            curve.add(rows, seconds, self._calls)

    def calls(self) -> tuple[Sequence[float], Sequence[float]]:
        """[ROWS] times of the target's and of the draft's calls, in one unit."""
        if self._calls >= self._next:
            self._next = self._calls + self.KEPT
            target = self._target_curve.seconds(self._calls)
            draft = self._draft_curve.seconds(self._calls) if self._draft_curve else None
            if target is not None:
                guessed = target[0] / self._target[0]  # seconds of a unit
                self._draft = draft or [cost * guessed for cost in self._draft]
                self._target = target
        return self._target, self._draft


class LoadCosts:
    """Costs of a text's rounds with one drafter, in plain steps of all live texts.

    Args:
        longest: the largest γ.
        uses_model: the drafter runs the draft model.
    """

    may_change = True

    def __init__(self, times: LoadTimes, longest: int, uses_model: bool) -> None:
        self._times = times
        self._longest = longest
        self._uses_model = uses_model
        self._known: tuple[int, int, Costs] | None = None  # live, id of the times, costs

    def now(self) -> Costs:
        live = min(self._times.live, ROWS)
        target, draft = self._times.calls()
        if self._known is None or self._known[:2] != (live, id(target)):
            step = target[live - 1]
            rows = [min(live * (1 + gamma), ROWS) for gamma in range(self._longest + 1)]
            token = draft[live - 1] / step if self._uses_model else 0.0
            costs = Costs([target[count - 1] / step for count in rows], token)
            self._known = live, id(target), costs
        return self._known[2]


class AfterFirst:
    """A controller that drafts nothing in a text's first round.

    The first token then comes with the call that reads the end of the prompt: drafting would need a
    call of the target before it.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._is_first = True

    def gamma(self) -> int:
        return 0 if self._is_first else self._controller.gamma()

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        if not self._is_first:
            self._controller.observe(drafted, evaluated, accepted, candidates)
        self._is_first = False
