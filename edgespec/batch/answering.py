"""Answers each line of a batch's input, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from edgespec.batch.request_line import RequestLine, read_request_line
from edgespec.batch.result_lines import ResultLines
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_api import Answer, error_object
from edgespec.openai.openai_calls import AnswerCalls
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.pair.generation import GenerationOptions
from edgespec.pair.pair import Pair

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


def answer_lines(
    pair: Pair,
    model: str,
    source: BatchInput,
    results: ResultLines,
    *,
    instead: GenerationOptions,
    drafting: GenerationOptions,
) -> Iterator[Outcome]:
    """Answers the lines that `results` lacks. An error of one line does not keep others waiting.

    Args:
        model: the model's name in answers.
        instead: options that replace the model's own where a line says nothing. With a seed, the
            line of number n draws with seed + n − 1.
        drafting: options of `Pair.stream` that no line decides: draft, gamma, rule.

    Raises:
        EdgespecError: the pair cannot draft as asked, whatever the line.
    """
    pair.stream([0], **drafting)  # only checks: nothing runs before the first token is asked for
    seen: set[str] = set()
    for index, (number, line) in enumerate(_numbered(source.path)):
        if index < results.done:
            _remember_name(number, line, seen)
            continue
        custom_id, tokens = f"line-{number}", 0
        error: EdgespecError | None = None
        try:
            read = read_request_line(number, line)
            custom_id = read.custom_id
            if custom_id in seen:
                raise UsageError(f"custom_id {shortened(custom_id)} is an earlier line's, too")
            body, tokens = _answer(pair, model, read, instead, drafting)
        except EdgespecError as refused:
            error, body = refused, error_object(refused)
        seen.add(custom_id)
        status = 200 if error is None else 400 if isinstance(error, UsageError) else 500
        results.add(_result_line(number, custom_id, status, body))
        yield Outcome(tokens, error)


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


def _answer(
    pair: Pair,
    model: str,
    line: RequestLine,
    instead: GenerationOptions,
    drafting: GenerationOptions,
) -> tuple[JsonObject, int]:
    """The answer's body, and the number of its tokens."""
    if (seed := instead.get("seed")) is not None:
        instead = {**instead, "seed": seed + line.number - 1}
    request = line.request(pair.manifest.generation, instead)
    options = cast(GenerationOptions, {**request.options, **drafting})
    result = pair.generate(request.prompt, **options)
    calls = AnswerCalls(pair.tool_use.form) if request.may_call else None
    answer = Answer(model, line.is_chat, TokenTexts(pair.tokenizer), calls)
    return answer.whole(result), len(result.token_ids)


def _result_line(number: int, custom_id: str, status: int, body: JsonObject) -> JsonObject:
    """A line of the results, as in OpenAI's batches."""
    name = f"batch_req_{number}"
    response: JsonObject = {"status_code": status, "request_id": name, "body": body}
    return {"id": name, "custom_id": custom_id, "response": response, "error": None}
