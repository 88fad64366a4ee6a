"""Several drafters for one text: in each round, the one with the largest expected speed-up."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.core.draft import Drafter, Proposal, proposed
from edgespec.core.randomness import Randomness
from edgespec.core.requests import Requests
from edgespec.costs.controller import Adaptive, Fixed

__all__ = ["AlternatingDrafter"]


class AlternatingDrafter:
    """A drafter and a γ controller in one; each drafter is judged by its own acceptance rate.

    Which one drafts depends only on the text so far and on earlier rounds, so the text keeps the
    target's distribution. Prompt lookup costs nothing but often has no proposal: it drafts where
    it has one and was right lately; elsewhere the model drafts.

    Args:
        drafters: drafters with their γ controllers; of equal expected speed-ups, the first wins.
    """

    def __init__(self, drafters: Sequence[tuple[Drafter, Fixed | Adaptive]]) -> None:
        self._drafters = drafters
        self._proposer: Fixed | Adaptive | None = None  # of the drafter that proposed last

    @property
    def seconds(self) -> float:
        return sum(draft.seconds for draft, _ in self._drafters)

    def begin(self, prompt: Sequence[int]) -> None:
        for draft, _ in self._drafters:
            draft.begin(prompt)

    def gamma(self) -> int:
        """The largest γ of any drafter."""
        return max(controller.gamma() for _, controller in self._drafters)

    def propose(
        self, sequence: Sequence[int], gamma: int, randomness: Randomness
    ) -> Requests[Proposal]:
        self._proposer = None
        by_speedup = sorted(self._drafters, key=lambda s: s[1].expected_speedup(), reverse=True)
        for draft, controller in by_speedup:
            most = min(gamma, controller.gamma())
            if not most:
                continue
            proposal = yield from proposed(draft, sequence, most, randomness)
            if proposal.tokens:
                self._proposer = controller
                return proposal
        return Proposal()

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        for _, controller in self._drafters:
            if drafted and controller is not self._proposer:
                controller.decay()
            else:
                controller.observe(drafted, evaluated, accepted, candidates)
