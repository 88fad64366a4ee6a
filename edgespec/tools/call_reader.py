"""Reads the calls in an answer, piece by piece, as it is generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgespec.tools.call_format import ToolCallFormat

__all__ = ["ToolCallPiece", "ToolCallReader"]


@dataclass(frozen=True)
class ToolCallPiece:
    """A piece of a call.

    Attributes:
        index: of the call in its answer.
        name: of the function, in the call's first piece.
        arguments: more of the arguments' JSON.
    """

    index: int
    name: str | None = None
    arguments: str = ""


class ToolCallReader:
    """Splits an answer into its text and its calls.

    A first call that is cut off before its arguments begin is text, as the model wrote it, without
    special tokens. A later one is left out.

    Args:
        form: of the model's calls.
    """

    def __init__(self, form: ToolCallFormat) -> None:
        self._form = form
        self._mark = form.mark or form.before
        self._unread = ""
        self._started = ""  # what was read of a call whose arguments have not begun
        self._expected: str | None = None  # what ends the part that is being read; None: text
        self._index = -1
        self._arguments: _JsonEnd | None = None
        self._has_text = False

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun."""
        return self._index >= 0

    def read(self, text: str, last: bool = False) -> Iterator[str | ToolCallPiece]:
        """The answer's text and the pieces of calls that are certain now.

        Args:
            text: more of the answer.
            last: nothing follows.
        """
        self._unread += text
        while self._unread:
            piece = self._next(last)
            if piece is None:
                break
            if piece != "":
                yield piece
        if last and not self.has_calls and (cut_off := self._cut_off()):
            yield cut_off

    def _cut_off(self) -> str:
        text, self._started, self._unread = self._started + self._unread, "", ""
        for name in self._form.special:
            text = text.replace(name, "")
        return text

    def _next(self, last: bool) -> str | ToolCallPiece | None:
        """The next piece, empty where only marks were read; None if more text is needed."""
        if self._arguments is not None:
            return self._more_arguments(self._arguments)
        if self._expected is None:
            return self._more_text(last)
        found = self._unread.find(self._expected)
        if found < 0:
            return None
        part = self._unread[:found]
        self._started += self._unread[: found + len(self._expected)]
        self._unread = self._unread[found + len(self._expected) :]
        if self._expected != self._form.between:
            self._expected = self._form.between
            return ""
        self._started = ""
        self._index += 1
        self._arguments = _JsonEnd()
        return ToolCallPiece(self._index, name=part)

    def _more_text(self, last: bool) -> str | None:
        """The text up to a call, without the white space before that."""
        at_start = not self._form.mark
        found = self._unread.find(self._mark)
        if found > 0 and at_start:
            found = -1
        if found >= 0 and not (at_start and self._has_text):
            text = self._unread[:found].rstrip()
            self._started = self._unread[len(text) : found]
            self._unread = self._unread[found:]
            self._expected = self._form.before
            return text
        held = 0 if last or (at_start and self._has_text) else self._held()
        text = self._unread[: len(self._unread) - held]
        self._unread = self._unread[len(text) :]
        self._has_text |= bool(text)
        return text or None

    def _held(self) -> int:
        """How many characters at the end may belong to a call: the beginning of a mark, and white
        space before it."""
        text = self._unread
        for size in range(min(len(self._mark) - 1, len(text)), 0, -1):
            if self._mark.startswith(text[-size:]) and (self._form.mark or size == len(text)):
                return size + len(text[:-size]) - len(text[:-size].rstrip())
        return len(text) - len(text.rstrip())

    def _more_arguments(self, end: _JsonEnd) -> ToolCallPiece:
        count = end.read(self._unread)
        part, self._unread = self._unread[:count], self._unread[count:]
        if end.found:
            self._arguments = None
            self._expected = self._form.middle or self._form.after
        return ToolCallPiece(self._index, arguments=part)


class _JsonEnd:
    """Finds the end of a JSON object.

    Attributes:
        found: the end was read.
    """

    def __init__(self) -> None:
        self.found = False
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def read(self, text: str) -> int:
        """How many characters belong to the object."""
        for index, character in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_text:
                self._escaped = character == "\\"
                self._in_text = character != '"'
            elif character == '"':
                self._in_text = True
            else:
                self._depth += (character in "{[") - (character in "}]")
                if self._depth == 0:
                    self.found = True
                    return index + 1
        return len(text)
