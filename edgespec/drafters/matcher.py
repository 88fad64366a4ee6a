"""What `SuffixLookup` asks of the texts in which it looks up how a text may continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

__all__ = ["Continuation", "Matcher", "Store"]

State = TypeVar("State")


class Continuation(NamedTuple):
    """The most frequent token after some substring.

    Attributes:
        token: its id.
        times, total: how often it followed there, of how many tokens that did.
        after: the state of the substring and the token.
    """

    token: int
    times: int
    total: int
    after: Any


@runtime_checkable
class Matcher(Protocol[State]):
    """Finds the suffixes of one growing text in texts that are known."""

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the growing text."""
        ...

    def suffixes(self) -> Iterator[tuple[int, State]]:
        """Length and state of suffixes that occur in the known texts, the longest first."""
        ...

    def best(self, state: State, /) -> Continuation | None:
        """The most frequent token after a state; None where nothing, or too much, followed."""
        ...


@runtime_checkable
class Store(Protocol):
    """Known texts."""

    def begin(self) -> Matcher[Any]:
        """A matcher for a new text."""
        ...
