"""What a decoding loop asks for.

The loop computes nothing itself: it yields an ask and receives the answer. So one text, several
texts in shared calls, and a test drive the same code.

    loop ── Prefill, Score, TopScore ──▶ driver        (`computed`, or `edgespec.scheduler`)
    loop ◀── a token, logits, top tokens ── driver
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from edgespec.core.array_types import LogitRows
from edgespec.core.model import Candidate, CandidateModel, Model, TopTokens, TopTokensModel

__all__ = [
    "Ask",
    "Asking",
    "Prefill",
    "Read",
    "Score",
    "TopScore",
    "computed",
    "prefilled",
    "scored",
    "top_scored",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prefill:
    """`Model.prefill`; the answer is the pending token."""

    model: Model
    prompt: Sequence[int]
    answers: Sequence[range] | None

    def compute(self) -> int:
        return self.model.prefill(self.prompt, self.answers)


@dataclass(frozen=True, slots=True)
class Score:
    """`CandidateModel.score`, or `Model.score` without candidates; the answer is its logits."""

    model: Model
    tokens: Sequence[int]
    candidates: Sequence[Candidate] = ()

    def compute(self) -> LogitRows:
        if not self.candidates:
            return self.model.score(self.tokens)
        return cast(CandidateModel, self.model).score(self.tokens, self.candidates)


@dataclass(frozen=True, slots=True)
class TopScore:
    """`TopTokensModel.top_tokens`; the answer is its top tokens."""

    model: TopTokensModel
    tokens: Sequence[int]
    candidates: Sequence[Candidate] = ()
    skip: int = 0
    probabilities: bool = False

    def compute(self) -> TopTokens:
        return self.model.top_tokens(
            self.tokens, self.candidates, skip=self.skip, probabilities=self.probabilities
        )


@dataclass(frozen=True, slots=True)
class Read:
    """Appends a piece of a prompt to a model's cache. Loops ask for a whole `Prefill`; a driver of
    several texts splits it into pieces (`TextModel.reading`). Without tokens: what is unread. The
    answer is None."""

    model: Model
    tokens: Sequence[int]


Ask = Prefill | Score | TopScore
# A computation that yields what it needs computed and returns its result.
Asking = Generator[Ask, Any, T]


def prefilled(model: Model, prompt: Sequence[int], answers: Sequence[range] | None) -> Asking[int]:
    """Asks for `Model.prefill`."""
    return cast(int, (yield Prefill(model, prompt, answers)))


def scored(
    model: Model, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
) -> Asking[LogitRows]:
    """Asks for `Model.score`."""
    return cast(LogitRows, (yield Score(model, tokens, candidates)))


def top_scored(
    model: TopTokensModel,
    tokens: Sequence[int],
    candidates: Sequence[Candidate] = (),
    *,
    skip: int = 0,
    probabilities: bool = False,
) -> Asking[TopTokens]:
    """Asks for `TopTokensModel.top_tokens`."""
    return cast(TopTokens, (yield TopScore(model, tokens, candidates, skip, probabilities)))


def computed(asking: Asking[T]) -> T:
    """The result, with everything that is asked for computed at once."""
    answer: Any = None
    while True:
        try:
            ask = asking.send(answer)
        except StopIteration as end:
            return cast(T, end.value)
        answer = ask.compute()
