"""Costs of rounds while other texts share the calls, by the clock.

With k texts, a row more for each makes a call of k rows more. So verification costs more than for a
text alone, drafting costs less, and γ falls by itself as texts come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from edgespec.costs.controller import Controller
from edgespec.costs.cost_model import Costs
from edgespec.costs.time_curve import TimeCurve
from edgespec.scheduler.shared_calls import ROWS

__all__ = ["AfterFirst", "CallTimes", "Load", "LoadCosts"]

DRAFT_ROW = 0.02  # guess of what one more row costs a draft's call, in calls of one row


class CallTimes:
    """What calls took in this process, by their number of rows; guesses until then.

    Several threads may use it.

    Args:
        costs: of rounds of a text alone, by the name of the drafter.
    """

    FIRST, KEPT = 8, 64  # calls after which times are computed anew: at first, and later

    def __init__(self, costs: Mapping[str, Costs]) -> None:
        self._target = list(costs["lookup"].up_to(ROWS - 1).verify)
        token = costs["model"].draft if "model" in costs else 0.0
        self._draft = [token * (1 + DRAFT_ROW * row) for row in range(ROWS)]
        self._target_curve = TimeCurve(self._target)
        self._draft_curve = TimeCurve(self._draft) if token else None
        self._calls = self._next = 0
        self._tokens = self._sequences = self._readings = 0
        self._reading_seconds = self._reading = 0.0
        self._lock = Lock()

    def add(self, rows: int, seconds: float, is_draft: bool) -> None:
        """Reports a call."""
        with self._lock:
            self._calls += 1
            curve = self._draft_curve if is_draft else self._target_curve
            if curve is not None:
                curve.add(rows, seconds, self._calls)

    def add_draft_reading(self, seconds: float, prompts: int) -> None:
        """Reports what it took a draft to read prompts, or pieces of prompts that count as 0."""
        with self._lock:
            self._reading_seconds += seconds
            self._readings += prompts

    def add_sequence(self, tokens: int) -> None:
        """Reports the length of a text at its end."""
        with self._lock:
            self._sequences += 1
            self._tokens += tokens

    def now(self) -> tuple[Sequence[float], Sequence[float], float]:
        """[ROWS] times of the target's and of the draft's calls, and what reading its prompt takes
        a draft for each token of the text, in one unit."""
        with self._lock:
            if self._calls >= self._next:
                self._next = self._calls + min(max(self._calls, self.FIRST), self.KEPT)
                target = self._target_curve.seconds(self._calls)
                draft = self._draft_curve.seconds(self._calls) if self._draft_curve else None
                if target is not None:
                    guessed = target[0] / self._target[0]  # seconds of a unit
                    self._draft = draft or [cost * guessed for cost in self._draft]
                    self._target = target
                    self._reading = self._draft_reading()
            return self._target, self._draft, self._reading

    def _draft_reading(self) -> float:
        if not (self._readings and self._tokens):
            return 0.0
        return self._reading_seconds / self._readings / (self._tokens / self._sequences)


@dataclass
class Load:
    """How many texts share calls, and what calls take.

    Attributes:
        times: of all schedulers of a pair.
        live: texts of this scheduler that are being written.
    """

    times: CallTimes
    live: int = 1


class LoadCosts:
    """Costs of a text's rounds with one drafter, in plain steps of all live texts.

    A drafted token of a model also costs its share of reading the prompt.

    Args:
        longest: the largest γ.
        uses_model: the drafter runs the draft model.
    """

    may_change = True

    def __init__(self, load: Load, longest: int, uses_model: bool) -> None:
        self._load = load
        self._longest = longest
        self._uses_model = uses_model
        self._known: tuple[int, int, Costs] | None = None  # live, id of the times, costs

    def now(self) -> Costs:
        live = min(self._load.live, ROWS)
        target, draft, reading = self._load.times.now()
        if self._known is None or self._known[:2] != (live, id(target)):
            step = target[live - 1]
            rows = [min(live * (1 + gamma), ROWS) for gamma in range(self._longest + 1)]
            token = draft[live - 1] + live * reading
            drafted = token / step if self._uses_model else 0.0
            costs = Costs([target[count - 1] / step for count in rows], drafted)
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
