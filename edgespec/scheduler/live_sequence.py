"""A sequence that is being made beside others: its loop, what it waits for, its rounds so far."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

from edgespec.core.decode import Loop, Round
from edgespec.core.requests import Prefill, Read, StepRequest
from edgespec.scheduler.shared_calls import sequence_model_of

__all__ = ["LiveSequence"]


class LiveSequence:
    """A loop and what it waits for.

    Args:
        loop: of `edgespec.core.decode`.
        step: makes the scheduler go on.

    Attributes:
        request: what the loop waits for; a `Prefill` of a model with several sequences comes in
            pieces, each a `Read`. None before its start and after its end.
        prompt: that is being read, with its model; None while none is.
        tokens: emitted so far.
        is_new, ended: whether it has not started yet, or has no more rounds to come.
    """

    def __init__(self, loop: Loop, step: Callable[[], None]) -> None:
        self._loop = loop
        self._step = step
        self._rounds: deque[Round] = deque()
        self._reading: Generator[Read, None, int] | None = None
        self._error: BaseException | None = None
        self.request: StepRequest | Read | None = None
        self.prompt: Prefill | None = None
        self.tokens = 0
        self.is_new = True
        self.ended = False

    @property
    def is_reading(self) -> bool:
        """Whether it waits for a piece of its prompt."""
        return isinstance(self.request, Read)

    def start(self) -> None:
        """Runs the loop up to what it asks for first."""
        self.is_new = False
        self._advance(None)

    def answer(self, value: Any) -> None:
        """Answers the request and runs the loop up to the next."""
        if self._reading is not None:
            self._read_on(self._reading)
        else:
            self._advance(value)

    def begin_reading(self) -> None:
        """Takes the prompt that the loop asks to be read apart."""
        assert isinstance(self.request, Prefill)
        model = sequence_model_of(self.request)
        assert model is not None
        self.prompt = self.request
        self._reading = model.reading(self.request.prompt, self.request.assistant_spans)
        try:
            self._read_on(self._reading)
        except BaseException as error:  # the prompt is too long
            self._end(error)

    def _read_on(self, reading: Generator[Read, None, int]) -> None:
        try:
            self.request = next(reading)
        except StopIteration as end:
            self._reading = self.prompt = None
            self._advance(end.value)

    def _advance(self, value: Any) -> None:
        self.request = None
        try:
            event = self._loop.send(value)
            while isinstance(event, Round):
                self._rounds.append(_kept(event))
                self.tokens += len(event.tokens)
                event = next(self._loop)
            self.request = event
        except StopIteration:
            self._end(None)
        except BaseException as error:
            self._end(error)

    def fail(self, error: BaseException | None) -> None:
        """Ends the sequence before its loop does: what it asked for cannot be computed, if there is
        an error."""
        self._loop.close()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self.ended = True
        self.request = self.prompt = self._reading = None

    @property
    def ready_tokens(self) -> int:
        """How many tokens can be taken from `rounds` without computing anything."""
        return sum(len(round_.tokens) for round_ in self._rounds)

    def rounds(self) -> Iterator[Round]:
        """The sequence's rounds; the scheduler goes on while there is none."""
        try:
            while True:
                if self._rounds:
                    yield self._rounds.popleft()
                elif self.ended:
                    break
                else:
                    self._step()
            if self._error is not None:
                raise self._error
        finally:
            self.close()

    def close(self) -> None:
        """Ends the sequence, if it has not ended yet."""
        if not self.ended:
            self.fail(None)


def _kept(round_: Round) -> Round:
    """A round that stays valid: its logits are a view of what the next call overwrites."""
    if round_.logits is None:
        return round_
    return dataclasses.replace(round_, logits=round_.logits.copy())
