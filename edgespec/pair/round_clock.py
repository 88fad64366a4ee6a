"""The times of a pair's rounds, kept from text to text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from edgespec.core.draft import Drafter
from edgespec.core.model import Model
from edgespec.costs.controller import Adaptive, Controller
from edgespec.costs.cost_model import Costs, CostSource
from edgespec.costs.measured_costs import (
    Clock,
    DraftingTimes,
    MeasuredCosts,
    Timed,
    VerificationTimes,
)
from edgespec.drafters.registry import DRAFTERS, own_costs

__all__ = ["CostClock", "RoundClock"]


class CostClock(Protocol):
    """Where γ "auto" takes its costs from, where the text does not depend on γ.

    Attributes:
        costs: by the name of the drafter.
    """

    @property
    def costs(self) -> Mapping[str, CostSource]: ...

    def timed(self, name: str, chooser: Controller, target: Model) -> Controller:
        """The controller of a named drafter, perhaps with its rounds timed."""
        ...

    def timed_own(self, drafter: Drafter, target: Model) -> Controller:
        """A controller for a caller's own drafter."""
        ...


class RoundClock:
    """Measures what rounds cost while texts are made, for γ "auto".

    Args:
        costs: guessed or tuned, by the name of the drafter; until rounds were timed.
        draft: the pair's draft model.

    Attributes:
        costs: by the name of the drafter, as far as they are measured.
        clock: returns seconds.
    """

    def __init__(
        self, costs: Mapping[str, Costs], draft: Model | None, clock: Clock = time.perf_counter
    ) -> None:
        without_model = costs["lookup"]
        self._verification = VerificationTimes(without_model)
        self._drafting: DraftingTimes | None = None
        if draft is not None:
            self._drafting = DraftingTimes(draft, costs["model"], without_model)
        self.clock = clock
        self.costs: Mapping[str, CostSource] = {
            name: MeasuredCosts(guess, self._verification, self._drafting_times(name))
            for name, guess in costs.items()
        }

    def _drafting_times(self, name: str) -> DraftingTimes | None:
        return self._drafting if DRAFTERS[name].uses_model else None

    def timed(self, name: str, chooser: Controller, target: Model) -> Timed:
        """The controller of a named drafter, with its rounds timed."""
        drafting = self._drafting_times(name)
        return Timed(chooser, target, self._verification, drafting, self.clock)

    def timed_own(self, drafter: Drafter, target: Model) -> Timed:
        """A controller for a caller's own drafter, with the rounds of this text timed.

        They are not kept: a drafter that does not count its seconds would make verification look
        slow to the others.
        """
        without = self.costs["lookup"].now()
        guess = own_costs(drafter, without)
        verification = VerificationTimes(without)
        drafting = DraftingTimes(drafter, guess, without)
        chooser = Adaptive(MeasuredCosts(guess, verification, drafting))
        return Timed(chooser, target, verification, drafting, self.clock)
