"""Texts that know which message their characters came from, through what a template does to them.

A chat template writes the messages of a conversation between its own texts. Where in its output a
message is cannot be found by searching: its text may occur anywhere. So a template is given
messages whose texts are `TrackedText`, a kind of `str` that keeps the origin of its characters when
it is cut, trimmed, split or joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, SupportsIndex

__all__ = ["Part", "TrackedText", "joined", "parts_of", "tracked"]


class Part(NamedTuple):
    """The characters [start, end) of a text, which came from a message.

    Attributes:
        source: the message's index. An empty part says where an empty message is.
    """

    start: int
    end: int
    source: int


class TrackedText(str):
    """A text with the parts of it that came from messages, in order.

    What cuts a text keeps its parts. What changes its characters (`upper`, `replace`) gives a text
    that came from one message as a whole, or a plain one.
    """

    _parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> str:
        return joined((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined((other, self)) if isinstance(other, str) else NotImplemented

    def __getitem__(self, key: SupportsIndex | slice[Any, Any, Any]) -> str:
        if not isinstance(key, slice):
            index = key.__index__()
            str.__getitem__(self, index)  # raises IndexError
            index %= len(self)
            return self._cut(index, index + 1)
        start, stop, step = key.indices(len(self))
        if step != 1:
            return self._changed(str.__getitem__(self, key))
        return self._cut(start, max(start, stop))

    def __iter__(self) -> Iterator[str]:
        return (self._cut(index, index + 1) for index in range(len(self)))

    # --- what cuts it ---

    def strip(self, chars: str | None = None, /) -> str:
        end = len(str.rstrip(self, chars))
        return self._cut(min(end, len(self) - len(str.lstrip(self, chars))), end)

    def lstrip(self, chars: str | None = None, /) -> str:
        return self._cut(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> str:
        return self._cut(0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix: str, /) -> str:
        return self._cut(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> str:
        return self._cut(0, len(str.removesuffix(self, suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(str.split(self, sep, maxsplit), sep or "")

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(str.rsplit(self, sep, maxsplit), sep or "")

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self._found(str.splitlines(self, keepends), "")

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        head, found, tail = self._found([*str.partition(self, sep)], "")
        return head, found, tail

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        head, found, tail = self._found([*str.rpartition(self, sep)], "")
        return head, found, tail

    # --- what changes its characters ---

    def upper(self) -> str:
        return self._changed(str.upper(self))

    def lower(self) -> str:
        return self._changed(str.lower(self))

    def title(self) -> str:
        return self._changed(str.title(self))

    def capitalize(self) -> str:
        return self._changed(str.capitalize(self))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        return self._changed(str.replace(self, old, new, count))

    # --- parts ---

    def _cut(self, start: int, end: int) -> str:
        """The characters [start, end)."""
        cut = TrackedText(str.__getitem__(self, slice(start, end)))
        cut._parts = tuple(
            Part(max(part.start, start) - start, min(part.end, end) - start, part.source)
            for part in self._parts
            if part.start < end and part.end > start
        )
        if start == end and not cut._parts and self._parts:  # where the message would be
            cut._parts = (Part(0, 0, self._parts[0].source),)
        return cut

    def _found(self, pieces: list[str], separator: str) -> list[str]:
        """Pieces that follow each other in this text, as parts of it."""
        found = []
        position = 0
        for piece in pieces:
            position = self.find(piece, position)
            found.append(self._cut(position, position + len(piece)))
            position += len(piece) + len(separator)
        return found

    def _changed(self, text: str) -> str:
        """Another text made of this one."""
        sources = {part.source for part in self._parts}
        return tracked(text, sources.pop()) if len(sources) == 1 else text


def tracked(text: str, source: int) -> TrackedText:
    """The text of a message, given by its index."""
    made = TrackedText(text)
    made._parts = (Part(0, len(text), source),)
    return made


def parts_of(text: str) -> tuple[Part, ...]:
    """The parts of a text that came from messages, in order."""
    return text._parts if isinstance(text, TrackedText) else ()


def joined(texts: Iterable[str], separator: str = "") -> str:
    """`separator.join(texts)` with the parts of all of them."""
    pieces: list[str] = []
    for text in texts:
        if separator and pieces:
            pieces.append(separator)
        pieces.append(text)
    whole = "".join(pieces)
    parts: list[Part] = []
    length = 0
    for piece in pieces:
        parts += (
            Part(part.start + length, part.end + length, part.source) for part in parts_of(piece)
        )
        length += len(piece)
    if not parts:
        return whole
    made = TrackedText(whole)
    made._parts = tuple(parts)
    return made
