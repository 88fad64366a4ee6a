"""What answers a request, in any interface: one object, or the events of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_answer import Answer
from edgespec.pair.generation import Chunk, Generation

__all__ = ["Answering", "CompletionEvents", "Event"]


class Event(NamedTuple):
    """An object of a stream; some interfaces give it a name."""

    data: JsonObject
    name: str | None = None


class Answering(Protocol):
    """The answer to one request: `whole`, or the events of all other methods in order.

    Texts have numbers from 0; most interfaces have one text only.
    """

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The answer in one object."""
        ...

    def begin(self, number: int, result: Generation) -> Sequence[Event]:
        """What comes before a text."""
        ...

    def piece(self, number: int, chunk: Chunk) -> Sequence[Event]:
        """More of a text; nothing while there is nothing certain to report."""
        ...

    def end(self, number: int, result: Generation) -> Sequence[Event]:
        """What comes after a text."""
        ...

    def last(self, results: Sequence[Generation]) -> Sequence[Event]:
        """What comes after all texts."""
        ...


class CompletionEvents:
    """Chat completions and completions, whose events have no names.

    Args:
        counts: the stream ends with the number of tokens.
    """

    def __init__(self, answer: Answer, counts: bool) -> None:
        self._answer = answer
        self._counts = counts

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """See `Answering`, as for all methods."""
        return self._answer.whole(results)

    def begin(self, number: int, result: Generation) -> Sequence[Event]:
        """The role, or the prompt that is echoed."""
        return [Event(self._answer.begin(number, result))]

    def piece(self, number: int, chunk: Chunk) -> Sequence[Event]:
        """A delta, if there is one."""
        data = self._answer.piece(number, chunk)
        return [] if data is None else [Event(data)]

    def end(self, number: int, result: Generation) -> Sequence[Event]:
        """The reason for the end."""
        return [Event(self._answer.end(number, result))]

    def last(self, results: Sequence[Generation]) -> Sequence[Event]:
        """Numbers of tokens."""
        return [Event(self._answer.counts(results))] if self._counts else []
