"""What the loop asks of a drafter, and what a drafter proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgespec.core.distribution import Distribution
from edgespec.core.model import Candidate
from edgespec.core.randomness import Randomness

__all__ = ["Drafter", "Proposal"]


@dataclass(frozen=True)
class Proposal:
    """What a draft offers: γ tokens and, for each, the distribution it was drawn from.

    `q[i]` is the distribution that `tokens[i]` was *sampled from*: one-hot for a token that was
    determined (arg-max, prompt lookup). Verifying against another distribution is not exact.

    `candidates` are other guesses at the places of `tokens`; at other places they are left out. No
    rule looks at them: where the token that replaces a rejected one happens to be one of them, it
    has been scored already.
    """

    tokens: Sequence[int] = ()
    q: Sequence[Distribution] = ()
    candidates: Sequence[Candidate] = ()

    def first(self, count: int) -> Proposal:
        """Without the tokens behind so many."""
        if len(self.tokens) <= count:
            return self
        return Proposal(self.tokens[:count], self.q[:count], self.candidates)


class Drafter(Protocol):
    @property
    def seconds(self) -> float:
        """Time spent computing so far."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Starts a new text."""
        ...

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        """At most `gamma` tokens to follow `text`: the pending token and all emitted since."""
        ...
