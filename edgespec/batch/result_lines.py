"""A batch's answers on disk: line by line while it runs, under their own name when all are there.

While a batch runs, its answers are in OUT.partial: a first line that says what they are answers to,
then the answers in the order in which they ended, each with the number of its line. So a run that
was killed has lost only what it had not finished, and continues with the lines that are missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from edgespec.artifact.atomic_file import whole_file
from edgespec.errors import UsageError, needs_extra
from edgespec.openai.json_value import JsonObject

__all__ = [
    "ResultLines",
    "errors_path",
    "failed",
    "line_number",
    "partial_path",
    "result_lines",
    "tokens",
]


class ResultLines:
    """The answers so far.

    Args:
        file: where they are appended.
        offsets: where the answers of an earlier run begin in the file, by the number of the line.
    """

    def __init__(self, file: BinaryIO, offsets: dict[int, int]) -> None:
        self._file = file
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, number: object) -> bool:
        """Whether the line of this number is answered."""
        return number in self._offsets

    def add(self, answer: JsonObject) -> None:
        """Writes an answer; from then on no kill loses it."""
        self._offsets[line_number(answer)] = self._file.tell()
        self._file.write(_line(answer))
        self._file.flush()


def partial_path(out: Path) -> Path:
    """Where the answers are while the batch runs."""
    return out.with_name(f"{out.name}.partial")


def errors_path(out: Path) -> Path:
    """Where the lines that failed are afterwards: out.errors.jsonl for out.jsonl."""
    return out.with_name(f"{out.stem}.errors{out.suffix}")


@contextmanager
def result_lines(
    out: Path, recipe: JsonObject, *, replace: bool, any_order: bool = False
) -> Iterator[ResultLines]:
    """The answers of an earlier run of the same batch, or none, to be continued.

    When the block succeeds they move to `out`, and those of lines that failed to `errors_path`.
    After an error or an interruption they stay in `partial_path`.

    Args:
        recipe: what the answers depend on: the input, the model, the options.
        replace: replace `out`, and the answers of another batch that did not end.
        any_order: leave them in the order in which they ended, not in the input's.

    Raises:
        UsageError: `out` exists, another batch's answers are there, or another process writes.
        OSError: a file cannot be read or written.
    """
    with _locked(out):
        partial = partial_path(out)
        offsets = _whole_lines(partial, recipe)
        if offsets is None:
            _check_free(out, partial, replace)
            partial.write_bytes(_line(recipe))
            offsets = {}
        with partial.open("ab") as file:
            yield ResultLines(file, offsets)
            file.flush()
            os.fsync(file.fileno())
        _finish(out, partial, list(offsets.values()) if any_order else _in_order(offsets))


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Two processes would answer every line twice."""
    with needs_extra("batch"):
        from filelock import FileLock, Timeout

    lock = FileLock(out.with_name(f".{out.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f"another process is writing {out}; wait until it has ended, or give another -o FILE"
        ) from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _whole_lines(partial: Path, recipe: JsonObject) -> dict[int, int] | None:
    """Where the answers to this batch begin, by the numbers of their lines, after what was cut off
    has been removed; None if the file is absent or belongs to another batch."""
    try:
        with partial.open("rb+") as file:
            if file.readline() != _line(recipe):
                return None
            offsets: dict[int, int] = {}
            end = file.tell()
            while (number := _whole_number(file.readline())) is not None:
                offsets[number] = end
                end = file.tell()
            file.truncate(end)
            return offsets
    except FileNotFoundError:
        return None


def _whole_number(line: bytes) -> int | None:
    """The number of an answer's line; None where the answer was cut off. One that was cut off has
    no end; after a power failure it may hold zeros, too."""
    try:
        return line_number(json.loads(line)) if line.endswith(b"\n") else None
    except (ValueError, TypeError, KeyError):
        return None


def line_number(answer: JsonObject) -> int:
    """The number of the input line that an answer belongs to."""
    return int(cast(str, answer["id"]).removeprefix("batch_req_"))


def _check_free(out: Path, partial: Path, replace: bool) -> None:
    if replace:
        return
    if out.exists():
        raise UsageError(f"{out} exists already; replace it with --force")
    if partial.exists():
        raise UsageError(
            f"{partial} has answers to another input, or from another model or other options; "
            "end that batch first, or start anew with --force"
        )


def _in_order(offsets: Mapping[int, int]) -> list[int]:
    """Where the answers are, in the order of the input's lines."""
    return [offsets[number] for number in sorted(offsets)]


def _finish(out: Path, partial: Path, offsets: Sequence[int]) -> None:
    errors = errors_path(out)
    if not _copy(partial, offsets, errors, failed):
        errors.unlink()  # also those of an earlier batch
    _copy(partial, offsets, out, lambda answer: not failed(answer))
    partial.unlink()


def _copy(
    partial: Path, offsets: Sequence[int], path: Path, chosen: Callable[[JsonObject], bool]
) -> int:
    """Writes the chosen answers and returns their number."""
    count = 0
    with whole_file(path) as aside, aside.open("wb") as file, partial.open("rb") as answers:
        for offset in offsets:
            answers.seek(offset)
            line = answers.readline()
            if chosen(json.loads(line)):
                file.write(line)
                count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def failed(answer: JsonObject) -> bool:
    """Whether it answers a line that was refused, or that the model could not answer."""
    response = answer["response"]
    return not isinstance(response, dict) or response["status_code"] != 200


def tokens(answer: JsonObject) -> int:
    """How many tokens of text an answer has."""
    if failed(answer):
        return 0
    body = cast(JsonObject, cast(JsonObject, answer["response"])["body"])
    return cast(int, cast(JsonObject, body["usage"])["completion_tokens"])


def _line(value: JsonObject) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
