"""The two loops: plain decoding, and speculative decoding that has the same distribution.

In both, the *pending* token is the last one of the text: emitted (or part of the prompt) but not
yet in the target's cache. Its row of logits gives the distribution of the next token, so the token that
corrects a rejected draft is simply row 0 of the next verification: one target call a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.controller import Controller
from edgespec.core.distribution import Process
from edgespec.core.draft import Drafter, Proposal
from edgespec.core.model import Candidate, CandidateModel, Model, candidate_model_of
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
            target's correction or bonus, and one behind a correction a candidate's bonus.
        drafted, evaluated, accepted: proposed tokens, those the rule looked at, those emitted.
        logits: the target's rows, if they were asked for: `logits[i]` is for `tokens[i]`; valid
            until the next round.
        candidates: further guesses that were scored.
        taken: how many of them were emitted: the correction may be one.
    """

    tokens: Sequence[int]
    drafted: int
    evaluated: int
    accepted: int
    logits: npt.NDArray[np.float32] | None
    candidates: int = 0
    committed: int = 0


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
    """One target call a token. This is the distribution that `speculate` keeps.

    `ends` is told every emitted token once, in order, and says whether the text ends with it;
    `answers` are a conversation's, see `Model.prefill`; `logits` asks for these in each round.
    """
    score = score_of(target, process, logits)
    pending = target.prefill(prompt, answers)
    for emitted in range(min(max_new_tokens, target.capacity - target.length)):
        distributions = score([pending], ())
        pending = randomness.at(emitted).categorical(distributions[0])
        ended = ends(pending)
        yield Round([pending], drafted=0, evaluated=0, accepted=0, logits=distributions.logits)
        if ended:
            return


def speculate(
    target: Model,
    draft: Drafter,
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
    Other guesses at the same places, candidates, are scored in the same call. A correction is drawn as if
    there were none; if it is one of them, the distribution behind it is known, and a bonus token follows.
    """
    score = score_of(target, process, logits)
    candidate_model = candidate_model_of(target)
    text = [target.prefill(prompt, answers)]
    draft.begin(prompt)
    left = min(max_new_tokens, target.capacity - target.length)
    while left > 0:
        draws = randomness.at(len(text) - 1)
        most = min(gamma.gamma(), left - 1)
        proposal = draft.propose(text, most, draws).first(most) if most else Proposal()
        candidates = _scored_candidates(candidate_model, proposal)
        start = target.length
        distributions = score([text[-1], *proposal.tokens], candidates)
        result = rule(proposal, distributions, draws)
        run = [*proposal.tokens[: result.accepted], draws.categorical(result.next)]
        row_of = list(range(len(run)))  # the row that each token of the run was drawn from
        correction = Candidate(result.accepted, run[-1])
        if candidate_model is not None and correction in candidates:
            committed = candidates.index(correction)
            target.rewind(start + len(run))
            candidate_model.commit_candidate(committed)
            row_of.append(1 + len(proposal.tokens) + committed)
            run.append(
                randomness.at(len(text) - 1 + len(run)).categorical(distributions[row_of[-1]])
            )
        tokens, ended = _until_end(run, ends)
        target.rewind(start + len(tokens))
        text += tokens
        left -= len(tokens)
        accepted = min(result.accepted, len(tokens))
        gamma.observe(len(proposal.tokens), result.evaluated, result.accepted)
        yield Round(
            tokens,
            drafted=len(proposal.tokens),
            evaluated=min(result.evaluated, len(tokens)),
            accepted=accepted,
            logits=distributions.logits[row_of]
            if logits and distributions.logits is not None
            else None,
            candidates=len(candidates),
            committed=int(correction in candidates and accepted < len(tokens)),
        )
        if ended:
            return


def _scored_candidates(
    candidate_model: CandidateModel | None, proposal: Proposal
) -> Sequence[Candidate]:
    """Those of a proposal's candidates that its target can score, beside tokens that it scores."""
    if candidate_model is None or not proposal.candidates:
        return ()
    count = len(proposal.tokens)
    candidates = [candidate for candidate in proposal.candidates if 0 <= candidate.place < count]
    return candidates[: candidate_model.candidate_room(1 + count)]


def _until_end(run: Sequence[int], ends: Ends) -> tuple[Sequence[int], bool]:
    """The tokens up to the one that ends the text: a stop inside an accepted run cuts there."""
    for count, token in enumerate(run, start=1):
        if ends(token):
            return run[:count], True
    return run, False
