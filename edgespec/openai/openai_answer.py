"""OpenAI's answers, whole and streamed: the texts of a request as JSON."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_calls import AnswerCalls
from edgespec.openai.openai_logprobs import TokenLogprobs, TokenTexts, chat_logprobs, text_logprobs
from edgespec.pair.generation import Chunk, Generation
from edgespec.tools.call_format import CallFormat

__all__ = ["Answer"]


class Answer:
    """The JSON objects that answer one request; all have the same id.

    Args:
        model: the model's name.
        is_chat: the objects are those of chat completions.
        texts: of single tokens, for their log-probabilities.
        form: of the calls that the texts may have; None if they can have none.
        n: number of texts.
    """

    def __init__(
        self,
        model: str,
        is_chat: bool,
        texts: TokenTexts,
        form: CallFormat | None = None,
        n: int = 1,
    ) -> None:
        self._choices = [
            _Choice(index, is_chat, texts, None if form is None else AnswerCalls(form))
            for index in range(n)
        ]
        self._kind = "chat.completion" if is_chat else "text_completion"
        self._event_kind = f"{self._kind}.chunk" if is_chat else self._kind
        self._common: JsonObject = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The answer in one object."""
        choices = zip(self._choices, results, strict=True)
        return {
            "object": self._kind,
            **self._common,
            "choices": [choice.whole(result) for choice, result in choices],
            "usage": _usage(results),
        }

    def begin(self, number: int) -> JsonObject:
        """The first event of a text, before any of it."""
        return self._event([self._choices[number].begin()])

    def piece(self, number: int, chunk: Chunk) -> JsonObject | None:
        """An event with more of a text; None if there is nothing to report yet, as while a
        character or the beginning of a call may be unfinished."""
        choice = self._choices[number].piece(chunk)
        return None if choice is None else self._event([choice])

    def end(self, number: int, result: Generation) -> JsonObject:
        """The event after a text, with the reason for its end."""
        return self._event([self._choices[number].end(result)])

    def counts(self, results: Sequence[Generation]) -> JsonObject:
        """The event after the end, if the request asks for the number of tokens."""
        return {**self._event([]), "usage": _usage(results)}

    def _event(self, choices: Sequence[JsonObject]) -> JsonObject:
        return {"object": self._event_kind, **self._common, "choices": choices}


class _Choice:
    """One text of an answer."""

    def __init__(
        self, index: int, is_chat: bool, texts: TokenTexts, calls: AnswerCalls | None
    ) -> None:
        self._index = index
        self._is_chat = is_chat
        self._texts = texts
        self._calls = calls
        self._offset = 0  # characters of the tokens whose log-probabilities were sent

    def whole(self, result: Generation) -> JsonObject:
        fields = self._calls.message(result.text) if self._calls else {"content": result.text}
        message: JsonObject = {"role": "assistant", **fields}
        content: JsonObject = {"message": message} if self._is_chat else {"text": result.text}
        tokens = zip(result.token_ids, result.logprobs, result.top_logprobs, strict=False)
        logprobs = self._logprobs(list(tokens)) if result.logprobs else None
        return self._choice(content, self._finish_reason(result), logprobs)

    def begin(self) -> JsonObject:
        return self._delta({"role": "assistant", "content": ""} if self._is_chat else "", None)

    def piece(self, chunk: Chunk) -> JsonObject | None:
        content: JsonValue = {"content": chunk.text} if self._is_chat else chunk.text
        if self._calls is not None:
            content = self._calls.delta(chunk.text)
        if chunk.token is None or chunk.logprob is None:
            return self._delta(content, None) if chunk.text and content else None
        logprobs = self._logprobs([(chunk.token, chunk.logprob, chunk.top_logprobs)])
        return self._delta(content, None, logprobs)

    def end(self, result: Generation) -> JsonObject:
        rest: JsonValue = self._calls.delta("", last=True) if self._calls else {}
        return self._delta(rest if self._is_chat else "", self._finish_reason(result))

    def _finish_reason(self, result: Generation) -> str:
        if result.finish_reason not in ("eos", "stop"):
            return "length"
        return "tool_calls" if self._calls is not None and self._calls.found else "stop"

    def _delta(
        self, content: JsonValue, reason: str | None, logprobs: JsonObject | None = None
    ) -> JsonObject:
        return self._choice({"delta" if self._is_chat else "text": content}, reason, logprobs)

    def _choice(
        self, content: JsonObject, reason: str | None, logprobs: JsonObject | None
    ) -> JsonObject:
        return {"index": self._index, **content, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[TokenLogprobs]) -> JsonObject:
        if self._is_chat:
            return chat_logprobs(tokens, self._texts)
        before = self._offset
        self._offset += sum(len(self._texts.of(token)) for token, _, _ in tokens)
        return text_logprobs(tokens, self._texts, before)


def _usage(results: Sequence[Generation]) -> JsonObject:
    """Numbers of tokens: the prompt once, all texts together; of the tokens that a draft proposed,
    how many the target accepted."""
    prompt = results[0].prompt_tokens
    made = sum(len(result.token_ids) for result in results)
    drafted = sum(result.stats.drafted + result.stats.candidates for result in results)
    accepted = sum(result.stats.accepted + result.stats.committed for result in results)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": made,
        "total_tokens": prompt + made,
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }
