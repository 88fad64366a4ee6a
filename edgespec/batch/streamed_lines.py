"""A batch's answers to a reader: standard output, a pipe, a device."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgespec.artifact.writing.stream_output import open_stream
from edgespec.batch.request_line import RefusedLine, RequestLine
from edgespec.batch.result_lines import line_number
from edgespec.openai.json_value import JsonObject

__all__ = ["StreamedLines", "streamed_lines"]


class StreamedLines:
    """The answers so far, those of lines that failed among them.

    An answer is written as soon as those of all lines before it are; nothing can be continued.

    Args:
        any_order: write each at once.
    """

    def __init__(self, stream: BinaryIO, any_order: bool) -> None:
        self._stream = stream
        self._any_order = any_order
        self._order: deque[int] = deque()  # numbers of the lines whose answers are not written
        self._early: dict[int, JsonObject] = {}  # answers that wait for those of earlier lines

    def in_turn(
        self, lines: Iterable[RequestLine | RefusedLine]
    ) -> Iterator[RequestLine | RefusedLine]:
        """The lines, whose order is noted."""
        for line in lines:
            self._order.append(line.number)
            yield line

    def add(self, answer: JsonObject) -> None:
        """Writes an answer, or keeps it until its turn. Raises OSError where the reader is gone."""
        if self._any_order:
            self._write(answer)
            return
        self._early[line_number(answer)] = answer
        while self._order and self._order[0] in self._early:
            self._write(self._early.pop(self._order.popleft()))

    def _write(self, answer: JsonObject) -> None:
        self._stream.write(json.dumps(answer).encode("ascii") + b"\n")
        self._stream.flush()


@contextmanager
def streamed_lines(out: Path, *, any_order: bool) -> Iterator[StreamedLines]:
    """Opens the stream. Raises OSError where that is not possible."""
    with open_stream(out) as stream:
        yield StreamedLines(stream, any_order)
