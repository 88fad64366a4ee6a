"""A batch's answers on disk: line by line while it runs, under their own name when all are there.

While a batch runs, its answers are in OUT.partial: a first line that says what they are answers to,
then a line for each line of the input, in its order. So a run that was killed continues after the
last line that is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgespec.artifact.atomic_file import whole_file
from edgespec.errors import UsageError, needs_extra
from edgespec.openai.json_value import JsonObject

__all__ = ["ResultLines", "errors_path", "partial_path", "result_lines"]


class ResultLines:
    """The answers so far.

    Attributes:
        done: number of input lines that are answered.
    """

    def __init__(self, file: BinaryIO, done: int) -> None:
        self._file = file
        self.done = done

    def add(self, answer: JsonObject) -> None:
        """Writes the answer to the next line; from then on no kill loses it."""
        self._file.write(_line(answer))
        self._file.flush()
        self.done += 1


def partial_path(out: Path) -> Path:
    """Where the answers are while the batch runs."""
    return out.with_name(f"{out.name}.partial")


def errors_path(out: Path) -> Path:
    """Where the lines that failed are afterwards: out.errors.jsonl for out.jsonl."""
    return out.with_name(f"{out.stem}.errors{out.suffix}")


@contextmanager
def result_lines(out: Path, recipe: JsonObject, *, replace: bool) -> Iterator[ResultLines]:
    """The answers of an earlier run of the same batch, or none, to be continued.

    When the block succeeds they move to `out`, and those of lines that failed to `errors_path`.
    After an error or an interruption they stay in `partial_path`.

    Args:
        recipe: what the answers depend on: the input, the model, the options.
        replace: replace `out`, and the answers of another batch that did not end.

    Raises:
        UsageError: `out` exists, another batch's answers are there, or another process writes.
        OSError: a file cannot be read or written.
    """
    with _locked(out):
        partial = partial_path(out)
        done = _whole_lines(partial, recipe)
        if done is None:
            _check_free(out, partial, replace)
            partial.write_bytes(_line(recipe))
        with partial.open("ab") as file:
            yield ResultLines(file, done or 0)
            file.flush()
            os.fsync(file.fileno())
        _finish(out, partial)


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


def _whole_lines(partial: Path, recipe: JsonObject) -> int | None:
    """How many answers to this batch are there, after what was cut off has been removed; None if
    the file is absent or belongs to another batch."""
    try:
        with partial.open("rb+") as file:
            if file.readline() != _line(recipe):
                return None
            count, end = 0, file.tell()
            while _is_whole(file.readline()):
                count, end = count + 1, file.tell()
            file.truncate(end)
            return count
    except FileNotFoundError:
        return None


def _is_whole(line: bytes) -> bool:
    """A line that was cut off has no end; after a power failure it may hold zeros, too."""
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


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


def _finish(out: Path, partial: Path) -> None:
    errors = errors_path(out)
    if not _copy(partial, errors, failed):
        errors.unlink()  # also those of an earlier batch
    _copy(partial, out, lambda answer: not failed(answer))
    partial.unlink()


def _copy(partial: Path, path: Path, chosen: Callable[[JsonObject], bool]) -> int:
    """Writes the chosen answers and returns their number."""
    count = 0
    with whole_file(path) as aside, aside.open("wb") as file, partial.open("rb") as lines:
        next(lines)  # the recipe
        for line in lines:
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


def _line(value: JsonObject) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
