"""Several sources of drafts for one text: in each round, the one that promises most."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.core.controller import Adaptive, Fixed
from edgespec.core.draft import Drafter, Proposal
from edgespec.core.randomness import Randomness

__all__ = ["AlternatingDrafter"]


class AlternatingDrafter:
    """A draft and the controller of its γ in one: each source is judged by its own acceptance.

    Which source drafts depends on nothing but the text so far and on earlier rounds, so the distribution of
    the text stays the target's. Prompt lookup costs nothing and is often silent: it drafts where it
    has something and was right lately; elsewhere the model does.

    Args:
        sources: drafts with the controllers of their γ; of equal promise, the first comes first.
    """

    def __init__(self, sources: Sequence[tuple[Drafter, Fixed | Adaptive]]) -> None:
        self._sources = sources
        self._asked: Fixed | Adaptive | None = None

    @property
    def seconds(self) -> float:
        return sum(draft.seconds for draft, _ in self._sources)

    def begin(self, prompt: Sequence[int]) -> None:
        for draft, _ in self._sources:
            draft.begin(prompt)

    def gamma(self) -> int:
        """The most that any source would draft."""
        return max(controller.gamma() for _, controller in self._sources)

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        self._asked = None
        for draft, controller in sorted(
            self._sources, key=lambda s: s[1].expected_speedup(), reverse=True
        ):
            most = min(gamma, controller.gamma())
            proposal = draft.propose(text, most, randomness) if most else Proposal()
            if proposal.tokens:
                self._asked = controller
                return proposal
        return Proposal()

    def observe(self, drafted: int, evaluated: int, accepted: int) -> None:
        for _, controller in self._sources:
            if drafted and controller is not self._asked:
                controller.decay()
            else:
                controller.observe(drafted, evaluated, accepted)
