"""Answers requests, several at once, each as soon as it has ended."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import cast

from edgespec.batch.request_line import RefusedLine, RequestLine
from edgespec.errors import EdgespecError, UsageError
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_answer import Answer
from edgespec.openai.openai_errors import error_object, unexpected
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.openai.unknown_fields import UnknownFields
from edgespec.pair.concurrent.samples import Samples
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.pair import Pair

__all__ = ["Answering", "AnsweringOptions", "refusal"]


@dataclass(frozen=True)
class AnsweringOptions:
    """What the lines have in common.

    Attributes:
        model: the model's name in answers.
        texts: how many at once; each is the one that it would be alone.
        instead: options that replace the model's own where a line says nothing. With a seed, the
            line of number k draws with seed + k - 1; text number i of a line with i more.
        drafting: options of `Pair.stream` that no line decides: draft, gamma, rule.
        strict: lines with unknown fields are refused.
    """

    model: str
    texts: int
    instead: GenerationOptions
    drafting: GenerationOptions
    strict: bool = False


class Answering:
    """Answers lines with one pair.

    Raises:
        EdgespecError: the pair cannot draft as asked, whatever the line, or there is no memory for
            so many texts.
    """

    def __init__(self, pair: Pair, options: AnsweringOptions) -> None:
        pair.stream([0], **options.drafting)  # only checks: nothing runs before a token is taken
        self._pair = pair
        self._batch = pair.many(options.texts)
        self._token_texts = TokenTexts(pair.tokenizer)
        self._options = options
        self._unknown = UnknownFields(options.strict)

    def answers(
        self, lines: Iterable[RequestLine | RefusedLine]
    ) -> Generator[JsonObject, None, None]:
        """A line of the results for each line, in the order in which they end. An error of one
        line does not keep others waiting."""
        waiting = iter(lines)
        live: list[_LiveLine] = []
        try:
            while True:
                while self._batch.free and (line := next(waiting, None)) is not None:
                    try:
                        live.append(self._begin(line))
                    except Exception as error:
                        yield refusal(RefusedLine(line.number, line.custom_id, _as_line(error)))
                if not live:
                    return
                self._batch.step()
                for started in live:
                    started.collect()
                ended = [started for started in live if started.ended]
                live = [started for started in live if not started.ended]
                for started in ended:
                    yield started.result()
        finally:
            for started in live:
                started.samples.close()

    def _begin(self, line: RequestLine | RefusedLine) -> _LiveLine:
        if isinstance(line, RefusedLine):
            raise line.error
        instead: GenerationOptions = {**self._options.instead}
        if (seed := instead.get("seed")) is not None:
            instead["seed"] = seed + line.number - 1
        self._unknown.check(line.body)
        request = line.request(self._pair.manifest.generation, instead)
        form = request.answer_form(self._pair)
        echoes = request.echoes(self._pair.tokenizer)
        name = self._options.model
        answer = Answer(name, line.is_chat, self._token_texts, form, request.n, echoes)
        options = cast(GenerationOptions, {**request.options, **self._options.drafting})
        samples = Samples(self._batch, request.prompts, request.n, options)
        samples.grow()
        return _LiveLine(line, answer, samples)


@dataclass
class _LiveLine:
    """A line whose texts are being made.

    Attributes:
        error: why there is none.
    """

    line: RequestLine
    answer: Answer
    samples: Samples
    error: EdgespecError | None = None

    def collect(self) -> None:
        """Takes the new tokens of the texts, or their error."""
        try:
            self.samples.grow()
        except Exception as error:
            self.error = _as_line(error)

    @property
    def ended(self) -> bool:
        return self.error is not None or self.samples.ended

    def result(self) -> JsonObject:
        """Its line of the results."""
        if self.error is not None:
            return refusal(RefusedLine(self.line.number, self.line.custom_id, self.error))
        return _result_line(self.line, 200, self.answer.whole(self.samples.results))


def _as_line(error: Exception) -> EdgespecError:
    """Whatever a line meets, the others go on."""
    return error if isinstance(error, EdgespecError) else unexpected(error)


def refusal(line: RefusedLine) -> JsonObject:
    """The line of the results for a line that has no answer."""
    status = 400 if isinstance(line.error, UsageError) else 500
    return _result_line(line, status, error_object(line.error))


def _result_line(line: RequestLine | RefusedLine, status: int, body: JsonObject) -> JsonObject:
    """As in the files of OpenAI's batches."""
    name = f"batch_req_{line.number}"
    response: JsonObject = {"status_code": status, "request_id": name, "body": body}
    return {"id": name, "custom_id": line.custom_id, "response": response, "error": None}
