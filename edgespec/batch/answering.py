"""Answers the lines of a batch's input, several at once, in the order of the input."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from edgespec.batch.request_line import RequestLine, read_request_line
from edgespec.batch.result_lines import ResultLines
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_answer import Answer
from edgespec.openai.openai_api import Request, error_object
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.pair.generation import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.pair.several.many_texts import ManyTexts, TextStream

__all__ = ["BatchInput", "Outcome", "answer_lines", "read_input"]


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


@dataclass(frozen=True)
class Outcome:
    """What became of a line: the number of its tokens, or the error that its answer names."""

    tokens: int = 0
    error: EdgespecError | None = None


WINDOW = 4  # lines begun and not written yet, for each text at once


def answer_lines(
    pair: Pair,
    model: str,
    source: BatchInput,
    results: ResultLines,
    *,
    texts: int,
    instead: GenerationOptions,
    drafting: GenerationOptions,
) -> Iterator[Outcome]:
    """Answers the lines that `results` lacks, several at once, and writes them in the order of the
    input. An error of one line does not keep others waiting.

    Args:
        model: the model's name in answers.
        texts: how many lines at once; each has the answer that it would have alone.
        instead: options that replace the model's own where a line says nothing. With a seed, the
            line of number n draws with seed + n − 1.
        drafting: options of `Pair.stream` that no line decides: draft, gamma, rule.

    Raises:
        EdgespecError: the pair cannot draft as asked, whatever the line.
    """
    pair.stream([0], **drafting)  # only checks: nothing runs before the first token is asked for
    many = pair.many(texts)
    answers = _Answers(many, model, instead, drafting)
    begun: deque[_Line] = deque()
    lines = answers.lines(source, results.done)
    try:
        while True:
            while many.free and len(begun) < WINDOW * many.capacity:
                line = next(lines, None)
                if line is None:
                    break
                begun.append(line)
            if not begun:
                return
            many.step()
            for line in begun:
                line.collect()
            while begun and begun[0].ended:
                line = begun.popleft()
                results.add(answers.result(line))
                yield line.outcome
    finally:
        for line in begun:
            line.close()


@dataclass
class _Line:
    """A line whose answer is being made.

    Attributes:
        stream: its text; None where the line was refused.
        request: likewise.
        error: why there is no answer.
    """

    number: int
    custom_id: str
    is_chat: bool = False
    request: Request | None = None
    stream: TextStream | None = None
    error: EdgespecError | None = None

    def collect(self) -> None:
        """Takes what came of the text."""
        if self.stream is not None and not self.ended:
            try:
                self.stream.ready()
            except EdgespecError as error:
                self.error = error

    @property
    def ended(self) -> bool:
        return self.error is not None or (self.stream is not None and self.stream.ended)

    @property
    def outcome(self) -> Outcome:
        if self.error is not None or self.stream is None:
            return Outcome(0, self.error)
        return Outcome(len(self.stream.result.token_ids))

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()


@dataclass(frozen=True)
class _Answers:
    """Begins the answers of lines, and writes them as OpenAI's batches do."""

    many: ManyTexts
    model: str
    instead: GenerationOptions
    drafting: GenerationOptions

    def lines(self, source: BatchInput, done: int) -> Iterator[_Line]:
        """The lines after the first `done`, each begun when it is asked for."""
        seen: set[str] = set()
        for index, (number, text) in enumerate(_numbered(source.path)):
            if index < done:
                _remember_name(number, text, seen)
                continue
            line = _Line(number, f"line-{number}")
            try:
                read = read_request_line(number, text)
                line.custom_id, line.is_chat = read.custom_id, read.is_chat
                if line.custom_id in seen:
                    raise UsageError(
                        f"custom_id {shortened(line.custom_id)} is an earlier line's, too"
                    )
                self._begin(line, read)
            except EdgespecError as refused:
                line.error = refused
            seen.add(line.custom_id)
            yield line

    def _begin(self, line: _Line, read: RequestLine) -> None:
        instead: GenerationOptions = {**self.instead}
        if (seed := instead.get("seed")) is not None:
            instead["seed"] = seed + read.number - 1
        line.request = read.request(self.many.pair.manifest.generation, instead)
        options = cast(GenerationOptions, {**line.request.options, **self.drafting})
        line.stream = self.many.stream(line.request.prompt, **options)

    def result(self, line: _Line) -> JsonObject:
        """A line of the results."""
        name = f"batch_req_{line.number}"
        status = 200
        body: JsonObject = {}
        if line.error is not None:
            status = 400 if isinstance(line.error, UsageError) else 500
            body = error_object(line.error)
        elif line.stream is not None:
            pair = self.many.pair
            may_call = line.request is not None and line.request.may_call
            form = pair.tool_use.form if may_call else None
            answer = Answer(self.model, line.is_chat, TokenTexts(pair.tokenizer), form)
            body = answer.whole([line.stream.result])
        response: JsonObject = {"status_code": status, "request_id": name, "body": body}
        return {"id": name, "custom_id": line.custom_id, "response": response, "error": None}


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _remember_name(number: int, line: bytes, seen: set[str]) -> None:
    """The name of a line that is answered already."""
    try:
        seen.add(read_request_line(number, line).custom_id)
    except UsageError:
        seen.add(f"line-{number}")
