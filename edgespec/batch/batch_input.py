"""A batch's input: a file with a request on each line."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgespec.batch.request_line import RefusedLine, RequestLine, read_line
from edgespec.errors import UsageError, shortened

__all__ = ["BatchInput", "lines_to_answer", "read_input"]


@dataclass(frozen=True)
class BatchInput:
    """The input's file.

    Attributes:
        lines: number of its lines that are not blank.
        sha256: of its content.
    """

    path: Path
    lines: int
    sha256: str


def read_input(path: Path) -> BatchInput:
    """Reads the file once. Raises OSError where it cannot be read."""
    digest = hashlib.sha256()
    count = 0
    with path.open("rb") as file:
        for line in file:
            digest.update(line)
            count += bool(line.strip())
    return BatchInput(path, count, digest.hexdigest())


def lines_to_answer(
    source: BatchInput, answered: Container[int]
) -> Iterator[RequestLine | RefusedLine]:
    """The lines whose numbers are not in `answered`. A line with an earlier line's name is
    refused."""
    seen: set[str] = set()
    for number, text in _numbered(source.path):
        line = read_line(number, text)
        if isinstance(line, RequestLine) and line.custom_id in seen:
            name = shortened(line.custom_id)
            taken = UsageError(f"custom_id {name} is an earlier line's, too")
            line = RefusedLine(number, line.custom_id, taken)
        seen.add(line.custom_id)
        if number not in answered:
            yield line


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line
