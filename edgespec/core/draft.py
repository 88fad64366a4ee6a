"""What the loop asks of a drafter, and what a drafter proposes.

A drafter changes how fast a text comes, never the text's distribution, as long as it reports the
distribution that each of its tokens was drawn from. (The coupled rule does not look at it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from edgespec.core.distribution import Distribution
from edgespec.core.model import Candidate
from edgespec.core.randomness import Randomness
from edgespec.core.requests import Requests

__all__ = ["Drafter", "Proposal", "proposed"]


@dataclass(frozen=True)
class Proposal:
    """γ drafted tokens, and for each the distribution that it was drawn from.

    Attributes:
        tokens: [γ] token ids.
        q: [γ] distributions: `tokens[i]` was *sampled from* `q[i]`. It is one-hot for a token that
            was determined (arg-max, prompt lookup). Verifying with any other q is not exact.
        candidates: alternatives to drafted tokens. No verification rule looks at them. If the
            token that replaces a rejected one is a candidate, its row has been scored already.
    """

    tokens: Sequence[int] = ()
    q: Sequence[Distribution] = ()
    candidates: Sequence[Candidate] = ()

    def first(self, count: int) -> Proposal:
        """The proposal cut to at most `count` tokens."""
        if len(self.tokens) <= count:
            return self
        return Proposal(self.tokens[:count], self.q[:count], self.candidates)


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens. Give your own as `draft=` of `edgespec.Pair.generate`."""

    @property
    def seconds(self) -> float:
        """Time spent drafting so far."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Starts a new text; `prompt` holds token ids of the target."""
        ...

    def propose(
        self, sequence: Sequence[int], /, gamma: int, randomness: Randomness
    ) -> Proposal | Requests[Proposal]:
        """Proposes at most `gamma` tokens to follow `sequence`.

        A drafter that runs a model may be a generator that asks for its calls, so that several
        texts can draft in one; it returns the proposal at its end.

        Args:
            sequence: the pending token and all tokens emitted since `begin`.
            randomness: every random draw must come from it; a token's with the number of tokens
                proposed before it, so that the coupled rule's target has the same noise.
        """
        ...


def proposed(
    draft: Drafter, sequence: Sequence[int], gamma: int, randomness: Randomness
) -> Requests[Proposal]:
    """Asks for what the drafter needs; its proposal."""
    proposal = draft.propose(sequence, gamma, randomness)
    if isinstance(proposal, Proposal):
        return proposal
    return (yield from proposal)
