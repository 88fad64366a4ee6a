"""A batch's answers on disk: line by line while it runs, under their own name when all are there.

While a batch runs, its answers are in OUT.partial: a first line that says what they are answers to,
then the answers in the order in which they ended, each with the number of its line. So a run that
was killed has lost only what it had not finished, and continues with the lines that are missing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import cast

from edgespec.artifact.atomic_file import keep_owner_and_mode, named_errors, whole_file
from edgespec.errors import UsageError, needs_extra
from edgespec.openai.json_value import JsonObject, json_line

__all__ = [
    "ResultLines",
    "errors_path",
    "failed",
    "line_number",
    "line_of",
    "partial_path",
    "result_lines",
    "tokens",
]


OPENING = b'{"edgespec_batch": '  # of the first line
LONGEST_RECIPE = 2**20  # bytes


class ResultLines:
    """The answers so far.

    Args:
        file: where they are appended, without a buffer: what a full disk refused is not written
            again when the file is closed.
        offsets: where the answers of an earlier run begin in the file, by the number of the line.
    """

    def __init__(self, file: FileIO, offsets: dict[int, int]) -> None:
        self._file = file
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, number: object) -> bool:
        """Whether the line of this number is answered."""
        return number in self._offsets

    def add(self, answer: JsonObject) -> None:
        """Writes an answer; from then on no kill loses it. Raises OSError, which names the file,
        where it cannot be written."""
        offset, left = self._file.tell(), memoryview(line_of(answer))
        with named_errors(Path(self._file.name)):
            while left:
                left = left[self._file.write(left) :]
        self._offsets[line_number(answer)] = offset


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
    _check_place(out)
    with _locked(out):
        partial = partial_path(out)
        offsets = _whole_lines(partial, recipe)
        if offsets is None:
            _check_free(out, partial, replace)
            _begin(partial, recipe, out)
            offsets = {}
        with FileIO(partial, "ab") as file:
            yield ResultLines(file, offsets)
            os.fsync(file.fileno())
        _finish(out, partial, list(offsets.values()) if any_order else _in_order(offsets))


def _check_place(out: Path) -> None:
    """Raises UsageError where no file can be: all answers would be lost when they are renamed."""
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give -o a file")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent} is no folder; make it, or give another -o FILE")


def _begin(partial: Path, recipe: JsonObject, out: Path) -> None:
    """Writes the first line. The answers are as private as the file that they will replace."""
    partial.unlink(missing_ok=True)
    with named_errors(partial):
        if out.is_file():
            partial.touch(0o600)
            keep_owner_and_mode(out, partial)
            partial.chmod(stat.S_IMODE(out.stat().st_mode) | stat.S_IWUSR)
        partial.write_bytes(line_of(recipe))


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
    has been removed; None if the file is absent, holds no answers or belongs to another batch."""
    try:
        with partial.open("rb+") as file:
            if file.readline() != line_of(recipe):
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
    if errors_path(out).exists():
        raise UsageError(
            f"{errors_path(out)} exists already, where lines that fail would go; replace it with "
            "--force"
        )
    if partial.exists() and not _has_no_answers(partial):
        raise UsageError(
            f"{partial} has answers to another input, or from another model or other options; "
            "end that batch first, or start anew with --force"
        )


def _has_no_answers(partial: Path) -> bool:
    """Whether it is a first line alone, perhaps cut off: the disk was full as the batch began.
    After a power failure it may hold zeros, too."""
    with partial.open("rb") as file:
        first = file.readline(LONGEST_RECIPE)
        rest = file.read(1)
    started = first.rstrip(b"\0\n")[: len(OPENING)]
    return not rest and OPENING.startswith(started)


def _in_order(offsets: Mapping[int, int]) -> list[int]:
    """Where the answers are, in the order of the input's lines."""
    return [offsets[number] for number in sorted(offsets)]


def _finish(out: Path, partial: Path, offsets: Sequence[int]) -> None:
    errors = errors_path(out)
    if not _copy(partial, offsets, errors, failed, like=out):
        Path(os.path.realpath(errors)).unlink()  # also those of an earlier batch
    _copy(partial, offsets, out, lambda answer: not failed(answer), like=out)
    partial.unlink()


def _copy(
    partial: Path,
    offsets: Sequence[int],
    path: Path,
    chosen: Callable[[JsonObject], bool],
    like: Path,
) -> int:
    """Writes the chosen answers and returns their number."""
    count = 0
    with whole_file(path, like) as aside, aside.open("wb") as file, partial.open("rb") as answers:
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


def line_of(value: JsonObject) -> bytes:
    """A line of the file."""
    return json_line(value) + b"\n"
