"""The two loops: plain decoding, and speculative decoding with the same distribution.

They do no input or output: they yield what they need computed (`edgespec.core.requests`) and
`Round`s. `decoded` drives one of them alone, `edgespec.scheduler` several together.

In both, the *pending* token is the last token of the text: emitted (or part of the prompt) but not
yet in the target's cache. The logits after it give the distribution of the next token. So the token
that corrects a rejected draft is row 0 of the next verification: one target call per round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgespec.core.array_types import LogitRows
from edgespec.core.distribution import REFUSED, Distribution, Processor, RefusedRow
from edgespec.core.draft import Drafter, Proposal, proposed
from edgespec.core.logit_edits import LogitEdit
from edgespec.core.model import Candidate, CandidateModel, Model, candidate_model_of
from edgespec.core.randomness import Randomness
from edgespec.core.requests import Requests, StepRequest, request_prefill
from edgespec.core.scoring import score_of
from edgespec.core.verification import Rule, VerificationResult
from edgespec.costs.controller import Controller
from edgespec.errors import EdgespecError

__all__ = ["Loop", "Round", "decoded", "plain", "speculate"]

Ends = Callable[[int], bool]


@dataclass(frozen=True)
class Round:
    """The result of one target call.

    Attributes:
        tokens: emitted tokens, at least one: `accepted` drafted ones, then the target's correction
            or bonus, then, if the correction was a candidate, the bonus token after it.
        drafted, evaluated, accepted: numbers of proposed tokens, of those that the rule looked at,
            and of those that were emitted.
        logits: [len(tokens), vocabulary], the target's row for each emitted token, if asked for;
            valid until the next round.
        candidates: number of candidates that were scored.
        committed: number of candidates that were emitted: 0 or 1.
    """

    tokens: Sequence[int]
    drafted: int
    evaluated: int
    accepted: int
    logits: LogitRows | None
    candidates: int = 0
    committed: int = 0


# A text being made: yields requests to models, and a `Round` for each call of the target.
Loop = Generator[StepRequest | Round, Any, None]


def decoded(loop: Loop) -> Iterator[Round]:
    """The rounds of a loop, with everything that it asks for computed at once."""
    answer: Any = None
    while True:
        try:
            event = loop.send(answer)
        except StopIteration:
            return
        if isinstance(event, Round):
            answer = None
            yield event
        else:
            answer = event.compute()


def plain(
    target: Model,
    prompt: Sequence[int],
    *,
    assistant_spans: Sequence[range] | None = None,
    process: Processor,
    randomness: Randomness,
    max_new_tokens: int,
    ends: Ends,
    logits: bool = False,
    edit: LogitEdit | None = None,
    start: int | None = None,
) -> Loop:
    """Plain decoding: one target call per token. `speculate` keeps this distribution.

    Args:
        assistant_spans: a conversation's earlier answers, as in `Model.prefill`.
        process: turns logits into the distribution p.
        ends: called once for every emitted token, in order; says whether the text ends with it.
        logits: return the logits in each round.
        edit: changes logits by the text so far, before `process`.
        start: the pending token that the text begins with; None for the one that `Model.prefill`
            returns. Only encoder-decoders have a choice.
    """
    score = score_of(target, process, logits, edit)
    own_start = yield from request_prefill(target, prompt, assistant_spans)
    sequence = [own_start if start is None else start]
    for emitted in range(min(max_new_tokens, target.capacity - target.length)):
        p = yield from score(sequence, (), ())
        token = randomness.at(emitted).categorical(p[0], 0)
        if token == REFUSED:
            raise _reason(p[0])
        sequence.append(token)
        ended = ends(token)
        yield Round([token], drafted=0, evaluated=0, accepted=0, logits=p.logits)
        if ended:
            return


def speculate(
    target: Model,
    draft: Drafter,
    prompt: Sequence[int],
    *,
    assistant_spans: Sequence[range] | None = None,
    process: Processor,
    rule: Rule,
    gamma: Controller,
    randomness: Randomness,
    max_new_tokens: int,
    ends: Ends,
    logits: bool = False,
    edit: LogitEdit | None = None,
    start: int | None = None,
) -> Loop:
    """Speculative decoding: the draft proposes γ tokens, one target call scores γ + 1 positions.

    Leviathan, Kalman and Matias (2022), Algorithm 1, with a rule of `edgespec.core.verification`.
    The coupled rule needs `Coupled` randomness, and gives the tokens of `plain` with the same.

    Arguments are those of `plain`, and:
        draft: proposes tokens.
        rule: decides how many of them are accepted.
        gamma: decides how many tokens to draft in each round.
    """
    score = score_of(target, process, logits, edit)
    candidate_model = candidate_model_of(target)
    own_start = yield from request_prefill(target, prompt, assistant_spans)
    sequence = [own_start if start is None else start]
    draft.begin(prompt)
    left = min(max_new_tokens, target.capacity - target.length)
    while left > 0:
        draws = randomness.at(len(sequence) - 1)
        proposal = yield from _proposal(draft, sequence, min(gamma.gamma(), left - 1), draws)
        candidates = _scored_candidates(candidate_model, proposal)
        start = target.length
        p = yield from score(sequence, proposal.tokens, candidates)
        result = rule(proposal, p, draws)
        correction = draws.categorical(result.next, result.accepted)
        run = [*proposal.tokens[: result.accepted], correction]
        rows = list(range(len(run)))  # the row of p that each token of the run was drawn from
        number = _commit(candidate_model, candidates, run, start)
        if number is not None:
            rows.append(1 + len(proposal.tokens) + number)
            run.append(randomness.at(len(sequence) - 1 + len(run)).categorical(p[rows[-1]], 0))
        tokens, ended = _until_end(run, ends)
        if not tokens:
            raise _reason(p[rows[0]])
        target.rewind(start + len(tokens))
        sequence += tokens
        left -= len(tokens)
        gamma.observe(len(proposal.tokens), result.evaluated, result.accepted, len(candidates))
        emitted = p.logits[rows[: len(tokens)]] if logits and p.logits is not None else None
        yield _round(tokens, proposal, result, emitted, len(candidates), number is not None)
        if ended:
            return
        if len(tokens) < len(run):
            raise _reason(p[rows[len(tokens)]])


def _proposal(
    draft: Drafter, sequence: Sequence[int], most: int, draws: Randomness
) -> Requests[Proposal]:
    """At most `most` drafted tokens; the drafter is not asked for none."""
    if not most:
        return Proposal()
    return (yield from proposed(draft, sequence, most, draws)).first(most)


def _scored_candidates(model: CandidateModel | None, proposal: Proposal) -> Sequence[Candidate]:
    """The candidates that the target can score: alternatives to drafted tokens, as many as fit."""
    if model is None or not proposal.candidates:
        return ()
    count = len(proposal.tokens)
    candidates = [candidate for candidate in proposal.candidates if 0 <= candidate.parent < count]
    return candidates[: model.candidate_room(1 + count)]


def _commit(
    model: CandidateModel | None, candidates: Sequence[Candidate], run: Sequence[int], start: int
) -> int | None:
    """Keeps the candidate that the correction equals in the target's cache, and returns its number.

    The correction is drawn as if there were no candidates. If it equals one, the distribution after
    it is known, because candidates are scored in the same call, and a bonus token follows.

    Args:
        run: accepted tokens, then the correction.
        start: length of the target's cache before the call.
    """
    correction = Candidate(len(run) - 1, run[-1])
    if model is None or correction not in candidates:
        return None
    number = candidates.index(correction)
    model.rewind(start + len(run))
    model.commit_candidate(number)
    return number


def _round(
    tokens: Sequence[int],
    proposal: Proposal,
    result: VerificationResult,
    logits: LogitRows | None,
    candidates: int,
    committed: bool,
) -> Round:
    """The round of a proposal; the end of the text may have cut off the last tokens."""
    accepted = min(result.accepted, len(tokens))
    return Round(
        tokens,
        drafted=len(proposal.tokens),
        evaluated=min(result.evaluated, len(tokens)),
        accepted=accepted,
        logits=logits,
        candidates=candidates,
        committed=int(committed and accepted < len(tokens)),
    )


def _until_end(run: Sequence[int], ends: Ends) -> tuple[Sequence[int], bool]:
    """The tokens up to the one that ends the text, which may be an accepted one, or up to a row
    that has no token; and whether the text ends. Such a row is an error only where the text comes
    to it, as in `plain`."""
    for count, token in enumerate(run):
        if token == REFUSED:
            return run[:count], False
        if ends(token):
            return run[: count + 1], True
    return run, False


def _reason(row: Distribution) -> EdgespecError:
    """Why a row has no token."""
    assert isinstance(row, RefusedRow)
    return row.error
