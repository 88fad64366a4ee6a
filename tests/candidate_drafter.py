"""A drafter that leaves no token of a table model out."""

from __future__ import annotations

from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate
from edgespec.drafters.model_drafter import ModelDrafter


class WithCandidates(ModelDrafter):
    """Proposes all other tokens as candidates for each of its own."""

    def propose(self, text, gamma, randomness):
        proposal = yield from super().propose(text, gamma, randomness)
        candidates = [
            Candidate(index, other)
            for index, token in enumerate(proposal.tokens)
            for other in range(3)
            if other != token
        ]
        return Proposal(proposal.tokens, proposal.q, candidates)
