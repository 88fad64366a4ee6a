"""An answer as its parts: thinking, text, calls of functions; whole, or as it is generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgespec.chat.reasoning import ReasoningFormat, ReasoningReader, Thought
from edgespec.tools.call_format import ToolCallFormat
from edgespec.tools.call_reader import ToolCallPiece, ToolCallReader

__all__ = ["AnswerForm", "AnswerReader", "Block", "BlockReader", "BlockStep", "whole_blocks"]


@dataclass(frozen=True)
class AnswerForm:
    """What the texts of a request may have in them.

    Attributes:
        calls: the form of calls; None if there are none.
        reasoning: the marks of thinking; None if it is not told apart.
    """

    calls: ToolCallFormat | None = None
    reasoning: ReasoningFormat | None = None

    def __bool__(self) -> bool:
        return self.calls is not None or self.reasoning is not None

    def reader(self, opens_thinking: bool) -> AnswerReader:
        """A reader of one text.

        Args:
            opens_thinking: its prompt ends within thinking.
        """
        return AnswerReader(self, opens_thinking)


class AnswerReader:
    """Splits an answer into thinking, text and pieces of calls, as it is generated."""

    def __init__(self, form: AnswerForm, opens_thinking: bool) -> None:
        reasoning = form.reasoning
        self._reasoning = None if reasoning is None else ReasoningReader(reasoning, opens_thinking)
        self._calls = None if form.calls is None else ToolCallReader(form.calls)

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun."""
        return self._calls is not None and self._calls.has_calls

    def read(self, text: str, last: bool = False) -> Iterator[Thought | str | ToolCallPiece]:
        """The parts that are certain now; `last`: nothing follows."""
        pieces = [text] if self._reasoning is None else self._reasoning.read(text, last)
        for piece in pieces:
            if isinstance(piece, Thought) or self._calls is None:
                if piece:
                    yield piece
            else:
                yield from self._calls.read(piece)
        if last and self._calls is not None:
            yield from self._calls.read("", last)


@dataclass
class Block:
    """A part of an answer, as it grows.

    Attributes:
        index: of the part in its answer.
        text: thinking, text, or the JSON of a call's arguments.
        name: of the function that is called.
    """

    kind: Literal["thinking", "text", "call"]
    index: int
    text: str = ""
    name: str = ""


class BlockStep(NamedTuple):
    """A block begins, grows by a text, or ends."""

    what: Literal["begin", "more", "end"]
    block: Block
    text: str = ""


class BlockReader:
    """Reads an answer as blocks that begin, grow and end one after the other.

    Attributes:
        blocks: so far.
    """

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self.blocks: list[Block] = []
        self._open: Block | None = None

    def read(self, text: str, last: bool = False) -> Iterator[BlockStep]:
        """The steps that are certain now; `last`: nothing follows."""
        for piece in self._reader.read(text, last):
            if isinstance(piece, ToolCallPiece):
                if piece.name is not None:
                    yield from self._begin("call", piece.name)
                yield from self._more(piece.arguments)
            else:
                kind: Literal["thinking", "text"] = (
                    "thinking" if isinstance(piece, Thought) else "text"
                )
                if self._open is None or self._open.kind != kind:
                    yield from self._begin(kind)
                yield from self._more(str(piece))
        if last:
            yield from self._end()

    def _begin(
        self, kind: Literal["thinking", "text", "call"], name: str = ""
    ) -> Iterator[BlockStep]:
        yield from self._end()
        self._open = Block(kind, len(self.blocks), name=name)
        self.blocks.append(self._open)
        yield BlockStep("begin", self._open)

    def _more(self, text: str) -> Iterator[BlockStep]:
        if self._open is not None and text:
            self._open.text += text
            yield BlockStep("more", self._open, text)

    def _end(self) -> Iterator[BlockStep]:
        if self._open is not None:
            yield BlockStep("end", self._open)
        self._open = None


def whole_blocks(reader: AnswerReader, text: str) -> Sequence[Block]:
    """The parts of a whole answer."""
    blocks = BlockReader(reader)
    for _ in blocks.read(text, last=True):
        pass
    return blocks.blocks
