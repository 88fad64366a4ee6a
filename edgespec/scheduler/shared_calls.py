"""What the scheduler asks of a model that computes several texts in one call: protocols."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from edgespec.core.model import Model
from edgespec.core.requests import Read, Score, StepRequest, TopScore

__all__ = [
    "ROWS",
    "ReadingDraft",
    "SharedModel",
    "SharedRequest",
    "TextModel",
    "Texts",
    "text_model_of",
]


ROWS = 256  # of a call, at most; one text that asks for more gets a call of its own

SharedRequest = Read | Score | TopScore  # what several texts may ask for in one call


@runtime_checkable
class Texts(Protocol):
    """The texts of one model. Each has the bits that it would have alone, whatever the others do.

    Attributes:
        texts: all of them.
        seconds: of all calls so far.
        calls, rows: numbers of all calls and of their rows.
    """

    @property
    def texts(self) -> Sequence[TextModel]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def calls(self) -> int: ...
    @property
    def rows(self) -> int: ...

    def compute(self, requests: Sequence[SharedRequest]) -> Sequence[Any]:
        """The answers to requests, at most one of each text."""
        ...


@runtime_checkable
class TextModel(Model, Protocol):
    """One of the texts of a model.

    Attributes:
        texts: all of them.
        unread: the last tokens of a prompt, part of the text but not computed yet: the text's next
            call has their rows, too.
        computed_length: positions in the cache without those.
    """

    @property
    def texts(self) -> Texts: ...
    @property
    def unread(self) -> Sequence[int]: ...
    @property
    def computed_length(self) -> int: ...

    def reading(
        self, prompt: Sequence[int], answers: Sequence[range] | None = None
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
        """The same with what is unread: the text's next call computes it."""
        ...

    def copy(self, other: Any, length: int) -> None:
        """Takes over the first positions of another text of the same model."""
        ...


@runtime_checkable
class ReadingDraft(Model, Protocol):
    """A draft that reads its target's hidden states, and whose calls several texts can share.

    Attributes:
        shares_calls: whether they can here.
    """

    @property
    def shares_calls(self) -> bool: ...

    def several_beside(self, target: Texts, capacity: int) -> Texts:
        """A text for each of the target's, which it reads, with caches of so many positions.

        Raises:
            UsageError: there is no memory for their caches.
        """
        ...


@runtime_checkable
class SharedModel(Model, Protocol):
    """A model whose calls several texts can share.

    Attributes:
        shares_calls: whether they can here.
    """

    @property
    def shares_calls(self) -> bool: ...

    def several(self, count: int, capacity: int) -> Texts:
        """Texts with caches of their own, of so many positions each.

        Raises:
            UsageError: there is no memory for their caches.
        """
        ...


def text_model_of(request: StepRequest | Read) -> TextModel | None:
    """The model of a request, if it is one of several texts. Used in every call, so it looks at one
    attribute only."""
    return cast(TextModel, request.model) if hasattr(request.model, "texts") else None
