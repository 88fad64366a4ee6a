"""The trials of tuning, and the fastest of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgespec.costs.cost_model import Costs
from edgespec.device.device import Device, drafter_title, variant_title
from edgespec.drafters.registry import DRAFTERS
from edgespec.pair.opening.profile import Profile
from edgespec.pair.opening.runtime import machine_of

if TYPE_CHECKING:
    from edgespec_runtimes.machine import Machine

__all__ = ["Trial", "Tuning"]

CLEARLY_SLOWER = 0.97  # smaller differences change from run to run


@dataclass(frozen=True)
class Trial:
    """One way to run the pair, predicted and measured on the same prompts.

    Attributes:
        provider, draft_provider: of the target and of the draft.
        kind: name of the drafter that was tried, or "none".
        acceptance: α, the mean of Σ min(p, q).
        gamma: the best fixed one by prediction; 0 where drafting does not pay.
        predicted, measured: its speed-up over plain decoding of the same variant.
        adaptive: speed-up measured with γ "auto", a model and prompt lookup taking turns.
        tokens_per_second: the median plain tokens/s of all trials of this variant × `speedup`, so
            that a machine that drifts between trials does not decide.
    """

    target_format: str
    draft_format: str | None
    kind: str
    provider: str
    draft_provider: str
    threads: int
    costs: Costs
    step_ms: float
    acceptance: float
    gamma: int
    predicted: float
    measured: float
    adaptive: float
    tokens_per_second: float

    @property
    def target(self) -> str:
        """The target's variant and where it runs, for people."""
        return variant_title(self.target_format, self.provider)

    @property
    def tried(self) -> str:
        """The drafter, for people."""
        return drafter_title(self.kind, self.draft_format, self.draft_provider)

    @property
    def machine(self) -> Machine:
        """What it was measured on."""
        draft = Device(self.threads, self.draft_provider) if self.draft_format else None
        return machine_of(Device(self.threads, self.provider), draft)

    @property
    def follows(self) -> bool:
        """Whether γ "auto" is preferred: unless clearly slower, since it adapts to other texts."""
        return self.adaptive > CLEARLY_SLOWER * self.measured

    @property
    def draft(self) -> str:
        """The drafter to use, by the name that `generate` takes, or "none"."""
        if not self.gamma:
            return "none"
        return DRAFTERS[self.kind].tuned_with if self.follows else self.kind

    @property
    def speedup(self) -> float:
        """Over plain decoding, with the preferred γ."""
        return self.adaptive if self.follows else self.measured


@dataclass(frozen=True)
class Tuning:
    """All trials, and the fastest.

    Attributes:
        measured_on, machine: of the best trial, as in `Profile`.
    """

    trials: list[Trial]
    best: Trial
    measured_on: str
    machine: str

    @classmethod
    def of(cls, trials: list[Trial]) -> Tuning:
        """The fastest of the trials, and the machine that it was measured on."""
        best = max(trials, key=lambda trial: trial.tokens_per_second)
        return cls(trials, best, str(best.machine), best.machine.digest)

    def profile(self) -> Profile:
        """What `load` uses from now on."""
        best = self.best
        return Profile(
            target_format=best.target_format,
            draft_format=best.draft_format,
            draft=best.draft,
            gamma="auto" if best.follows else best.gamma,
            threads=best.threads,
            verify=list(best.costs.verify),
            draft_cost=best.costs.draft,
            step_ms=best.step_ms,
            measured_on=self.measured_on,
            machine=self.machine,
            provider=best.provider,
            draft_provider=best.draft_provider,
        )
