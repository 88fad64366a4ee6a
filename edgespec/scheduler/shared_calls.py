"""What the scheduler asks of a model that computes several sequences in one call: protocols."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from edgespec.core.model import Model
from edgespec.core.requests import Read, Score, StepRequest, TopScore

__all__ = [
    "ROWS",
    "OwnCallsDraft",
    "SequenceBatch",
    "SequenceModel",
    "SharedModel",
    "SharedRequest",
    "TargetStatesDraft",
    "sequence_model_of",
]


ROWS = 256  # of a call, at most; one sequence that asks for more gets a call of its own

SharedRequest = Read | Score | TopScore  # what several sequences may ask for in one call


@runtime_checkable
class SequenceBatch(Protocol):
    """The sequences of one model. Each has the bits that it would have alone, whatever the others
    do.

    Attributes:
        sequences: all of them.
        seconds: of all calls so far.
        calls, rows: numbers of all calls and of their rows.
    """

    @property
    def sequences(self) -> Sequence[SequenceModel]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def calls(self) -> int: ...
    @property
    def rows(self) -> int: ...

    def compute(self, requests: Sequence[SharedRequest]) -> Sequence[Any]:
        """The answers to requests, at most one of each sequence."""
        ...


@runtime_checkable
class SequenceModel(Model, Protocol):
    """One of the sequences of a model.

    Attributes:
        batch: all of them.
        unread: the last tokens of a prompt, part of the sequence but not computed yet: the
            sequence's next call has their rows, too.
        computed_length: positions in the cache without those.
    """

    @property
    def batch(self) -> SequenceBatch: ...
    @property
    def unread(self) -> Sequence[int]: ...
    @property
    def computed_length(self) -> int: ...

    def reading(
        self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None
    ) -> Generator[Read, None, int]:
        """Yields the pieces of a prompt that are not in the cache yet; returns the pending token.

        Raises:
            UsageError: as `Model.prefill`.
        """
        ...

    def position_keys(self, prompt: Sequence[int]) -> Sequence[Hashable]:
        """What the positions of a prompt are computed from: with equal keys they are equal."""
        ...

    def kept(self, keys: Sequence[Hashable]) -> int:
        """How many leading positions with these keys the cache holds already."""
        ...

    def promised(self, keys: Sequence[Hashable]) -> int:
        """The same with what is unread: the sequence's next call computes it."""
        ...

    def copy(self, other: Any, length: int) -> None:
        """Takes over the first positions of another sequence of the same model."""
        ...

    def cached_keys(self, end: int, start: int = 0) -> list[Hashable]:
        """What positions start … end - 1 of the cache were computed from."""
        ...


@runtime_checkable
class TargetStatesDraft(Model, Protocol):
    """A draft that reads its target's hidden states, and whose calls several sequences can share.

    Attributes:
        shares_calls: whether they can here.
    """

    @property
    def shares_calls(self) -> bool: ...

    def batch_for(self, target: SequenceBatch, capacity: int) -> SequenceBatch:
        """A sequence for each of the target's, which it reads, with caches of so many positions.

        Raises:
            UsageError: there is no memory for their caches.
        """
        ...


@runtime_checkable
class OwnCallsDraft(Model, Protocol):
    """A draft that reads its target's hidden states, and whose calls sequences cannot share."""

    def beside(self, target: SequenceBatch, capacity: int) -> Sequence[Model]:
        """The same draft for each of the target's sequences, which it reads, with a cache of so
        many positions.

        Raises:
            UsageError: there is no memory for their caches.
        """
        ...


@runtime_checkable
class SharedModel(Model, Protocol):
    """A model whose calls several sequences can share.

    Attributes:
        shares_calls: whether they can here.
    """

    @property
    def shares_calls(self) -> bool: ...

    def make_batch(self, count: int, capacity: int) -> SequenceBatch:
        """Sequences with caches of their own, of so many positions each.

        Raises:
            UsageError: there is no memory for their caches.
        """
        ...


def sequence_model_of(request: StepRequest | Read) -> SequenceModel | None:
    """The model of a request, if it is one of several sequences. Used in every call, so it looks at
    one attribute only."""
    return cast(SequenceModel, request.model) if hasattr(request.model, "batch") else None
