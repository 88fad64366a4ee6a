"""A caller's own drafter, whose every answer is checked before anything depends on it."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from edgespec.core.distribution import Distribution
from edgespec.core.draft import Drafter, Proposal
from edgespec.core.model import Candidate
from edgespec.core.randomness import Coupled, Randomness
from edgespec.core.requests import Requests, StepRequest
from edgespec.drafters.registry import OWN_DRAFT_COST
from edgespec.errors import EdgespecError, UsageError, shortened

__all__ = ["OwnDrafter"]

TOLERANCE = 1e-3  # of the sum of a distribution: float32 sums of a whole vocabulary are closer


class OwnDrafter:
    """A caller's drafter, kept to the protocol: it can end a text by an error, never change it.

    It gets copies of the text, and randomness that it can draw from and not move.

    Args:
        drafter: the caller's.
        vocab_size: of the target.

    Raises:
        UsageError: it lacks a method.
    """

    def __init__(self, drafter: Drafter, vocab_size: int) -> None:
        self._drafter = drafter
        self._vocab_size = vocab_size
        self._name = type(drafter).__name__
        lacking = [
            name for name in ("begin", "propose") if not callable(getattr(drafter, name, None))
        ]
        if lacking:
            raise UsageError(f"the drafter {self._name} has no method {lacking[0]}; give it one")
        self._checked_seconds()
        self.cost = getattr(drafter, "cost", OWN_DRAFT_COST)  # `own_costs` checks it

    @property
    def seconds(self) -> float:
        return self._checked_seconds()

    def begin(self, prompt: Sequence[int]) -> None:
        with self._named():
            self._drafter.begin(list(prompt))

    def propose(
        self, sequence: Sequence[int], gamma: int, randomness: Randomness
    ) -> Requests[Proposal]:
        draws = _CoupledDraws(randomness) if isinstance(randomness, Coupled) else _Draws(randomness)
        with self._named():
            answer: Any = self._drafter.propose(list(sequence), gamma, draws)
        if isinstance(answer, Generator):
            answer = yield from self._checked_requests(answer)
        with self._named():
            return self._checked(answer, gamma)

    def _checked_requests(
        self, requests: Generator[Any, Any, Any]
    ) -> Generator[StepRequest, Any, Any]:
        """What a drafter that is a generator returns; it may ask for calls of models only."""
        answer: Any = None
        while True:
            with self._named():
                try:
                    request = requests.send(answer)
                except StopIteration as end:
                    return end.value
                if not isinstance(request, get_args(StepRequest)):
                    raise self._wrong(
                        f"asks for {shortened(request)}", "yield Prefill, Score, TopScore"
                    )
            answer = yield request

    def _checked(self, proposal: object, gamma: int) -> Proposal:
        if not isinstance(proposal, Proposal):
            raise self._wrong(f"proposes {shortened(proposal)}", "return an edgespec.Proposal")
        tokens = [self._token(token) for token in list(proposal.tokens)[:gamma]]
        q = list(proposal.q)
        if len(q) != len(proposal.tokens):
            counts = f"proposes {len(proposal.tokens)} tokens with {len(q)} distributions"
            raise self._wrong(counts, "give one q for each token")
        candidates = [self._candidate(candidate) for candidate in proposal.candidates]
        return Proposal(tokens, [self._distribution(of) for of in q[:gamma]], candidates)

    def _token(self, token: Any) -> int:
        is_id = isinstance(token, Integral) and not isinstance(token, bool)
        if not (is_id and 0 <= int(token) < self._vocab_size):
            most = self._vocab_size - 1
            raise self._wrong(
                f"proposes the token {shortened(token)}", f"give ids from 0 to {most}"
            )
        return int(token)

    def _candidate(self, candidate: Any) -> Candidate:
        parent, token = candidate  # what is no pair raises, and is named
        if not isinstance(parent, Integral):
            raise self._wrong(f"has a candidate after {shortened(parent)}", "give its index")
        return Candidate(int(parent), self._token(token))

    def _distribution(self, q: object) -> Distribution:
        if not isinstance(q, Distribution):
            raise self._wrong(f"gives {shortened(q)} as a q", "give an edgespec.core Distribution")
        tokens, probabilities = np.asarray(q.tokens), np.asarray(q.probabilities)
        if not (tokens.ndim == probabilities.ndim == 1 and 0 < len(tokens) == len(probabilities)):
            shapes = f"gives a q of shapes {tokens.shape} and {probabilities.shape}"
            raise self._wrong(shapes, "give as many probabilities as tokens")
        whole = np.issubdtype(tokens.dtype, np.integer)
        if not (whole and tokens[0] >= 0 and tokens[-1] < self._vocab_size) or np.any(
            tokens[1:] <= tokens[:-1]
        ):
            most = self._vocab_size - 1
            raise self._wrong("gives a q of wrong tokens", f"give increasing ids from 0 to {most}")
        total = float(probabilities.sum(dtype=np.float64))
        if not (abs(total - 1) <= TOLERANCE and probabilities.min() >= 0):
            least = float(probabilities.min())
            wrong = f"gives a q whose sum is {total:g} and whose least probability is {least:g}"
            raise self._wrong(wrong, "give probabilities from 0 that sum to 1")
        return Distribution(tokens.astype(np.int64, copy=False), probabilities)

    def _checked_seconds(self) -> float:
        with self._named():
            seconds: Any = self._drafter.seconds
        if not (isinstance(seconds, Real) and math.isfinite(seconds) and float(seconds) >= 0):
            raise self._wrong(f"has the seconds {shortened(seconds)}", "give a number from 0")
        return float(seconds)

    def _wrong(self, what: str, way_out: str) -> EdgespecError:
        return EdgespecError(f"the drafter {self._name} {what}; {way_out}")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turns whatever a caller's code raises into one line."""
        try:
            yield
        except EdgespecError:
            raise
        except Exception as error:
            reason = " ".join(shortened(str(error), 200).split())
            raise self._wrong(f"raised {type(error).__name__} ({reason})", "mend it") from error


class _Draws:
    """A round's randomness, which a drafter draws from. Its position stays the loop's."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    def at(self, emitted: int) -> Randomness:
        raise UsageError(
            f"a drafter asked for the randomness after {shortened(emitted)} tokens; draw from what "
            "propose is given"
        )

    def bernoulli(self, probability: Any) -> bool:
        return self._randomness.bernoulli(probability)

    def categorical(self, distribution: Distribution, ahead: int) -> int:
        return self._randomness.categorical(distribution, ahead)


class _CoupledDraws(_Draws):
    """`Coupled`, likewise."""

    def __init__(self, randomness: Coupled) -> None:
        super().__init__(randomness)
        self.ranked = randomness.ranked
