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

from edgespec.accept import Rule
from edgespec.controller import Controller
from edgespec.distribution import Process
from edgespec.draft import Draft
from edgespec.laws import score_of
from edgespec.model import Model
from edgespec.randomness import Randomness

__all__ = ["Round", "plain", "speculate"]

Ends = Callable[[int], bool]


@dataclass(frozen=True)
class Round:
    """What one target call brought.

    Attributes:
        tokens: emitted, at least one; the first `accepted` were drafted, a following one is the
            target's correction or bonus.
        drafted, evaluated, accepted: proposed tokens, those the rule looked at, those emitted.
        logits: the target's rows, if they were asked for: `logits[i]` is for `tokens[i]`; valid
            until the next round.
    """

    tokens: Sequence[int]
    drafted: int
    evaluated: int
    accepted: int
    logits: npt.NDArray[np.float32] | None


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
        laws = score([pending])
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

    Leviathan, Kalman and Matias (2022), Algorithm 1, with the rule of `edgespec.accept`.
    """
    score = score_of(target, process, logits)
    text = [target.prefill(prompt, answers)]
    draft.begin(prompt)
    left = min(max_new_tokens, target.capacity - target.length)
    while left > 0:
        draws = randomness.at(len(text) - 1)
        most = min(gamma.gamma(), left - 1)
        proposal = draft.propose(text, most, draws).first(most)
        start = target.length
        laws = score([text[-1], *proposal.tokens])
        verdict = rule(proposal, laws, draws)
        run = [*proposal.tokens[: verdict.accepted], draws.categorical(verdict.next)]
        tokens, ended = _until_end(run, ends)
        target.rewind(start + len(tokens))
        text += tokens
        left -= len(tokens)
        accepted = min(verdict.accepted, len(tokens))
        gamma.observe(len(proposal.tokens), verdict.evaluated, verdict.accepted)
        evaluated = min(verdict.evaluated, len(tokens))
        yield Round(tokens, len(proposal.tokens), evaluated, accepted, laws.logits)
        if ended:
            return


def _until_end(run: Sequence[int], ends: Ends) -> tuple[Sequence[int], bool]:
    """The tokens up to the one that ends the text: a stop inside an accepted run cuts there."""
    for count, token in enumerate(run, start=1):
        if ends(token):
            return run[:count], True
    return run, False
