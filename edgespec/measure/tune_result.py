"""What tuning has tried, and which of it is the fastest."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.core.cost_model import Costs
from edgespec.core.device import Device, drafter_title, variant_title
from edgespec.pair.profile import Profile
from edgespec.pair.runtime import describe

__all__ = ["Trial", "Tuning"]

CLEARLY_SLOWER = 0.97  # what lies between changes from run to run


@dataclass(frozen=True)
class Trial:
    """One way to run the pair, predicted and measured on the same prompts.

    Attributes:
        provider, draft_provider: of the target and of the draft.
        kind: of the draft that was tried: "model", "lookup" or "none".
        acceptance: α, Σ min(p, q) on average.
        gamma: the best fixed one by prediction; 0 where drafting does not pay.
        predicted, measured: its speed-up over plain decoding of the same variant.
        adaptive: speed-up measured with γ "auto", a model and prompt lookup taking turns.
        tokens_per_second: measured; of a variant's candidates, what plain decoding of it reached in
            the middle of all its runs, times `speedup`. They run one after the other, and a
            machine that drifts must not choose among them.
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
        """What drafted, for people."""
        return drafter_title(self.kind, self.draft_format, self.draft_provider)

    @property
    def measured_on(self) -> str:
        draft = Device(self.threads, self.draft_provider) if self.draft_format else None
        return describe(Device(self.threads, self.provider), draft)

    @property
    def follows(self) -> bool:
        """Whether γ "auto" is to be preferred: unless clearly slower, for it serves other texts."""
        return self.adaptive > CLEARLY_SLOWER * self.measured

    @property
    def draft(self) -> str:
        """What is to draft, as `generate` is told it."""
        if not self.gamma:
            return "none"
        return "both" if self.kind == "model" and self.follows else self.kind

    @property
    def speedup(self) -> float:
        """Over plain decoding, as it is to be run."""
        return self.adaptive if self.follows else self.measured


@dataclass(frozen=True)
class Tuning:
    """Everything that was tried, and the best of it."""

    trials: list[Trial]
    best: Trial
    measured_on: str

    def profile(self) -> Profile:
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
            provider=best.provider,
            draft_provider=best.draft_provider,
        )
