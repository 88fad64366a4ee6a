"""The two loops: plain decoding, and speculative decoding that has the same law.

In both, the *pending* token is the last one of the text: emitted (or part of the prompt) but not
yet in the target's cache. Its row of logits gives the law of the next token, so the token that
corrects a rejected draft is simply row 0 of the next verification: one target call a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.controller import Controller
from edgespec.core.distribution import Process
from edgespec.core.draft import Draft, Proposal
from edgespec.core.model import Branching, Model, Sibling, branching_of
from edgespec.core.randomness import Randomness
from edgespec.core.scoring import score_of
from edgespec.core.verification import Rule

__all__ = ["Round", "plain", "speculate"]

Ends = Callable[[int], bool]


@dataclass(frozen=True)
class Round:
    """What one target call brought.

    Attributes:
        tokens: emitted, at least one; the first `accepted` were drafted, a following one is the
            target's correction or bonus, and one behind a correction a sibling's bonus.
        drafted, evaluated, accepted: proposed tokens, those the rule looked at, those emitted.
        logits: the target's rows, if they were asked for: `logits[i]` is for `tokens[i]`; valid
            until the next round.
        siblings: further guesses that were scored.
        taken: how many of them were emitted: the correction may be one.
    """

    tokens: Sequence[int]
    drafted: int
    evaluated: int
    accepted: int
    logits: npt.NDArray[np.float32] | None
    siblings: int = 0
    taken: int = 0


def plain(
    target: Model,
    prompt: Sequence[int],
    *,
    answers: Sequence[range] | None = None,
    process: Process,
    randomness: Randomness,
    max_new_tokens: int,
    ends: Ends,
    logits: bool = False,
) -> Iterator[Round]:
    """One target call a token. This is the law that `speculate` keeps.

    `ends` is told every emitted token once, in order, and says whether the text ends with it;
    `answers` are a conversation's, see `Model.prefill`; `logits` asks for these in each round.
    """
    score = score_of(target, process, logits)
    pending = target.prefill(prompt, answers)
    for emitted in range(min(max_new_tokens, target.capacity - target.length)):
        laws = score([pending], ())
        pending = randomness.at(emitted).categorical(laws[0])
        ended = ends(pending)
        yield Round([pending], drafted=0, evaluated=0, accepted=0, logits=laws.logits)
        if ended:
            return


def speculate(
    target: Model,
    draft: Draft,
    prompt: Sequence[int],
    *,
    answers: Sequence[range] | None = None,
    process: Process,
    rule: Rule,
    gamma: Controller,
    randomness: Randomness,
    max_new_tokens: int,
    ends: Ends,
    logits: bool = False,
) -> Iterator[Round]:
    """One target call a round: the draft proposes γ tokens, the target scores γ + 1 positions.

    Leviathan, Kalman and Matias (2022), Algorithm 1, with a rule of `edgespec.core.verification`.
    Other guesses at the same places, siblings, are scored in the same call. A correction is drawn as if
    there were none; if it is one of them, the law behind it is known, and a bonus token follows.
    """
    score = score_of(target, process, logits)
    branching = branching_of(target)
    text = [target.prefill(prompt, answers)]
    draft.begin(prompt)
    left = min(max_new_tokens, target.capacity - target.length)
    while left > 0:
        draws = randomness.at(len(text) - 1)
        most = min(gamma.gamma(), left - 1)
        proposal = draft.propose(text, most, draws).first(most) if most else Proposal()
        siblings = _scored_siblings(branching, proposal)
        start = target.length
        laws = score([text[-1], *proposal.tokens], siblings)
        verdict = rule(proposal, laws, draws)
        run = [*proposal.tokens[: verdict.accepted], draws.categorical(verdict.next)]
        behind = list(range(len(run)))  # the row that each token of the run was drawn from
        correction = Sibling(verdict.accepted, run[-1])
        if branching is not None and correction in siblings:
            taken = siblings.index(correction)
            target.rewind(start + len(run))
            branching.take(taken)
            behind.append(1 + len(proposal.tokens) + taken)
            run.append(randomness.at(len(text) - 1 + len(run)).categorical(laws[behind[-1]]))
        tokens, ended = _until_end(run, ends)
        target.rewind(start + len(tokens))
        text += tokens
        left -= len(tokens)
        accepted = min(verdict.accepted, len(tokens))
        gamma.observe(len(proposal.tokens), verdict.evaluated, verdict.accepted)
        yield Round(
            tokens,
            drafted=len(proposal.tokens),
            evaluated=min(verdict.evaluated, len(tokens)),
            accepted=accepted,
            logits=laws.logits[behind] if logits and laws.logits is not None else None,
            siblings=len(siblings),
            taken=int(correction in siblings and accepted < len(tokens)),
        )
        if ended:
            return


def _scored_siblings(branching: Branching | None, proposal: Proposal) -> Sequence[Sibling]:
    """Those of a proposal's siblings that its target can score, beside tokens that it scores."""
    if branching is None or not proposal.siblings:
        return ()
    count = len(proposal.tokens)
    siblings = [sibling for sibling in proposal.siblings if 0 <= sibling.place < count]
    return siblings[: branching.room_beside(1 + count)]


def _until_end(run: Sequence[int], ends: Ends) -> tuple[Sequence[int], bool]:
    """The tokens up to the one that ends the text: a stop inside an accepted run cuts there."""
    for count, token in enumerate(run, start=1):
        if ends(token):
            return run[:count], True
    return run, False
