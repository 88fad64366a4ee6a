"""What a decoding loop requests of its models.

The loop computes nothing itself: it yields a request and receives the answer. So one text, several
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
    "Prefill",
    "Read",
    "Requests",
    "Score",
    "StepRequest",
    "TopScore",
    "computed",
    "request_logits",
    "request_prefill",
    "request_top_tokens",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prefill:
    """`Model.prefill`; the answer is the pending token."""

    model: Model
    prompt: Sequence[int]
    assistant_spans: Sequence[range] | None

    def compute(self) -> int:
        return self.model.prefill(self.prompt, self.assistant_spans)


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
    several texts splits it into pieces (`SequenceModel.reading`). Without tokens: what is unread.
    The answer is None."""

    model: Model
    tokens: Sequence[int]


StepRequest = Prefill | Score | TopScore
# A computation that yields what it needs computed and returns its result.
Requests = Generator[StepRequest, Any, T]


def request_prefill(
    model: Model, prompt: Sequence[int], assistant_spans: Sequence[range] | None
) -> Requests[int]:
    """Asks for `Model.prefill`."""
    return cast(int, (yield Prefill(model, prompt, assistant_spans)))


def request_logits(
    model: Model, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
) -> Requests[LogitRows]:
    """Asks for `Model.score`."""
    return cast(LogitRows, (yield Score(model, tokens, candidates)))


def request_top_tokens(
    model: TopTokensModel,
    tokens: Sequence[int],
    candidates: Sequence[Candidate] = (),
    *,
    skip: int = 0,
    probabilities: bool = False,
) -> Requests[TopTokens]:
    """Asks for `TopTokensModel.top_tokens`."""
    return cast(TopTokens, (yield TopScore(model, tokens, candidates, skip, probabilities)))


def computed(requests: Requests[T]) -> T:
    """The result, with everything that is asked for computed at once."""
    answer: Any = None
    while True:
        try:
            request = requests.send(answer)
        except StopIteration as end:
            return cast(T, end.value)
        answer = request.compute()
