"""Drafts what a grammar forces, and elsewhere what another drafter proposes."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.core.distribution import one_hot
from edgespec.core.draft import Drafter, Proposal, proposed
from edgespec.core.randomness import Randomness
from edgespec.core.requests import Requests
from edgespec.costs.controller import Controller
from edgespec.grammar.legal_tokens import ForcedTokens

__all__ = ["GrammarDrafter"]


class GrammarDrafter:
    """A drafter and a γ controller in one: what the grammar forces costs no draft call.

    Whether it proposes forced tokens depends only on the text so far, and they are determined, so
    their q is one-hot.

    Args:
        legal: says what is forced, and what is legal.
        drafter: asked where nothing is forced.
        controller: of its γ.
        longest: the most forced tokens of a round; fewer after some were rejected.
    """

    def __init__(
        self, legal: ForcedTokens, drafter: Drafter, controller: Controller, longest: int
    ) -> None:
        self._legal = legal
        self._drafter = drafter
        self._controller = controller
        self._longest = longest
        self._most_forced = longest  # in the next round that has any
        self._others = 0  # γ of the other drafter in this round
        self._has_forced = False

    @property
    def seconds(self) -> float:
        return self._drafter.seconds

    def begin(self, prompt: Sequence[int]) -> None:
        self._drafter.begin(prompt)

    def gamma(self) -> int:
        """The most tokens that either may propose."""
        self._others = self._controller.gamma()
        return max(self._others, self._most_forced)

    def propose(
        self, sequence: Sequence[int], gamma: int, randomness: Randomness
    ) -> Requests[Proposal]:
        generated = sequence[1:]
        forced = self._legal.forced(generated, min(gamma, self._most_forced))
        self._has_forced = bool(forced)
        if forced:
            return Proposal(forced, [one_hot(token) for token in forced])
        most = min(gamma, self._others)
        if not most:
            return Proposal()
        proposal = yield from proposed(self._drafter, sequence, most, randomness)
        return proposal.first(self._legal_length(generated, proposal))

    def observe(self, drafted: int, evaluated: int, accepted: int, candidates: int) -> None:
        """Forced tokens say nothing about the other drafter. Where the target spelled them in
        another way, fewer are proposed, until it takes them again."""
        if self._has_forced:
            self._most_forced = min(self._longest, 2 * accepted + 2)
        else:
            self._controller.observe(drafted, evaluated, accepted, candidates)
        self._has_forced = False

    def _legal_length(self, generated: Sequence[int], proposal: Proposal) -> int:
        """How many tokens remain without one that is determined and illegal, as lookup's may be:
        its rejection is certain. One that was drawn stays, whatever it is: to drop it for what it
        is would change the text's distribution."""
        for count, (token, q) in enumerate(zip(proposal.tokens, proposal.q, strict=True)):
            if len(q.tokens) > 1:
                continue
            if not self._legal.allows(token, [*generated, *proposal.tokens[:count]]):
                return count
        return len(proposal.tokens)
