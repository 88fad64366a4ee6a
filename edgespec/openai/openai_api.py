"""OpenAI's chat completions and completions: requests as calls of the pair, answers as JSON."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from edgespec.artifact.chat_format import Message
from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_calls import AnswerCalls
from edgespec.openai.openai_fields import OPTIONS, check_fields
from edgespec.openai.openai_grammar import response_grammar
from edgespec.openai.openai_logprobs import (
    TokenLogprobs,
    TokenTexts,
    chat_logprobs,
    text_logprobs,
)
from edgespec.pair.generation import Chunk, Generation, GenerationOptions
from edgespec.pair.prompt import PromptInput

__all__ = ["Answer", "Request", "chat_request", "error_object", "text_request"]

# OpenAI's defaults, for what neither the request nor the model says.
TEMPERATURE = 1.0
TEXT_LENGTH = 16  # tokens of a completion


@dataclass(frozen=True)
class Request:
    """A request as a call of `Pair.stream`.

    Attributes:
        prompt: the text, token ids or messages to continue.
        options: keyword arguments of `Pair.stream`.
        streams: the answer is sent in pieces.
        counts: a streamed answer ends with the number of its tokens.
    """

    prompt: PromptInput
    options: GenerationOptions
    streams: bool
    counts: bool

    @property
    def may_call(self) -> bool:
        """Whether the answer may call tools."""
        return bool(self.options.get("tools")) and self.options.get("tool_choice") != "none"


def chat_request(
    body: JsonObject, own: GenerationDefaults, instead: GenerationOptions | None = None
) -> Request:
    """A request for a chat completion.

    Args:
        own: the model's own settings, for fields that the request does not have.
        instead: options that replace these settings.

    Raises:
        UsageError: a field is unknown, or its value is not allowed.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise UsageError(f"messages is {shortened(messages)}; give a list of messages")
    prompt = [_message(message) for message in messages]
    return _request(body, "messages", prompt, _usual(own, own.length(), instead))


def text_request(
    body: JsonObject, own: GenerationDefaults, instead: GenerationOptions | None = None
) -> Request:
    """A request for a completion; see `chat_request`."""
    usual = _usual(own, TEXT_LENGTH, instead)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        (prompt,) = prompt
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        return _request(body, "prompt", cast("list[int]", prompt), usual)
    if not isinstance(prompt, str):
        raise UsageError(f"prompt is {shortened(prompt)}; give one text, or a list of token ids")
    return _request(body, "prompt", prompt, usual)


def _usual(
    own: GenerationDefaults, length: int, instead: GenerationOptions | None
) -> GenerationOptions:
    """The options of a request that sets none."""
    usual = {"temperature": TEMPERATURE, **own.sampling(), "max_new_tokens": length}
    return cast(GenerationOptions, {**usual, **(instead or {})})


def _request(
    body: JsonObject, prompt_field: str, prompt: PromptInput, usual: GenerationOptions
) -> Request:
    fields = {name: value for name, value in body.items() if value is not None}
    check_fields(fields, prompt_field)
    given = {OPTIONS[name]: value for name, value in fields.items() if name in OPTIONS}
    if isinstance(biases := given.get("logit_bias"), Mapping):
        given["logit_bias"] = {int(token): bias for token, bias in biases.items()}  # type: ignore[misc]
    if (grammar := response_grammar(fields.get("response_format", {"type": "text"}))) is not None:
        given["grammar"] = grammar  # type: ignore[assignment]
    if "logprobs" in fields and prompt_field == "prompt":
        given.update(logprobs=True, top_logprobs=fields["logprobs"])
    stream_options = fields.get("stream_options", {})
    return Request(
        prompt,
        cast(GenerationOptions, {**usual, **given}),
        streams=fields.get("stream") is True,
        counts=isinstance(stream_options, Mapping) and stream_options.get("include_usage") is True,
    )


def _message(message: JsonValue) -> Message:
    """A message with one text as its content, and with "system" for OpenAI's "developer".

    Clients send earlier answers back with empty fields (`refusal`, `annotations`); they are
    dropped. One with calls may have no content.
    """
    if not isinstance(message, Mapping):
        raise UsageError(f"a message is {shortened(message)}; give a role and a content")
    fields = {name: value for name, value in message.items() if value not in (None, [])}
    role = message.get("role")
    role = "system" if role == "developer" else role
    # `ChatFormat` checks that both are texts.
    return cast(Message, {**fields, "role": role, "content": _text(message.get("content"))})


def _text(content: JsonValue) -> JsonValue:
    """A message's content; parts of text become one text."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(text, str):
            raise UsageError(
                f"a part of a message's content is {shortened(part)}; only text is known here"
            )
        texts.append(text)
    return "".join(texts)


class Answer:
    """The JSON objects that answer one request; all have the same id.

    Args:
        model: the model's name.
        is_chat: the objects are those of chat completions.
        texts: of single tokens, for their log-probabilities.
        calls: finds the calls in the text; None if it can have none.
    """

    def __init__(
        self, model: str, is_chat: bool, texts: TokenTexts, calls: AnswerCalls | None = None
    ) -> None:
        self._texts = texts
        self._calls = calls
        self._offset = 0  # characters of the tokens whose log-probabilities were sent
        self._kind = "chat.completion" if is_chat else "text_completion"
        self._is_chat = is_chat
        self._common: JsonObject = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, result: Generation) -> JsonObject:
        """The answer in one object."""
        fields = self._calls.message(result.text) if self._calls else {"content": result.text}
        message: JsonObject = {"role": "assistant", **fields}
        content: JsonObject = {"message": message} if self._is_chat else {"text": result.text}
        tokens = zip(result.token_ids, result.logprobs, result.top_logprobs, strict=False)
        logprobs = self._logprobs(list(tokens)) if result.logprobs else None
        choice = _choice(content, self._finish_reason(result), logprobs)
        return {
            "object": self._kind,
            **self._common,
            "choices": [choice],
            "usage": _usage(result),
        }

    def begin(self) -> JsonObject:
        """The first event of a stream, before any text."""
        return self._event({"role": "assistant", "content": ""} if self._is_chat else "", None)

    def piece(self, chunk: Chunk) -> JsonObject | None:
        """An event with more of the text; None if there is nothing to report yet, as while a
        character or the beginning of a call may be unfinished."""
        content: JsonValue = {"content": chunk.text} if self._is_chat else chunk.text
        if self._calls is not None:
            content = self._calls.delta(chunk.text)
        if chunk.token is None or chunk.logprob is None:
            return self._event(content, None) if chunk.text and content else None
        logprobs = self._logprobs([(chunk.token, chunk.logprob, chunk.top_logprobs)])
        return self._event(content, None, logprobs)

    def end(self, result: Generation) -> JsonObject:
        """The event after the text, with the reason for its end."""
        rest: JsonValue = self._calls.delta("", last=True) if self._calls else {}
        return self._event(rest if self._is_chat else "", self._finish_reason(result))

    def counts(self, result: Generation) -> JsonObject:
        """The event after the end, if the request asks for the number of tokens."""
        return {"object": self._event_kind, **self._common, "choices": [], "usage": _usage(result)}

    def _finish_reason(self, result: Generation) -> str:
        if result.finish_reason not in ("eos", "stop"):
            return "length"
        return "tool_calls" if self._calls is not None and self._calls.found else "stop"

    @property
    def _event_kind(self) -> str:
        return f"{self._kind}.chunk" if self._is_chat else self._kind

    def _event(
        self, content: JsonValue, reason: str | None, logprobs: JsonObject | None = None
    ) -> JsonObject:
        choice = _choice({"delta" if self._is_chat else "text": content}, reason, logprobs)
        return {"object": self._event_kind, **self._common, "choices": [choice]}

    def _logprobs(self, tokens: Sequence[TokenLogprobs]) -> JsonObject:
        if self._is_chat:
            return chat_logprobs(tokens, self._texts)
        before = self._offset
        self._offset += sum(len(self._texts.of(token)) for token, _, _ in tokens)
        return text_logprobs(tokens, self._texts, before)


def _choice(content: JsonObject, reason: str | None, logprobs: JsonObject | None) -> JsonObject:
    return {"index": 0, **content, "logprobs": logprobs, "finish_reason": reason}


def _usage(result: Generation) -> JsonObject:
    """Numbers of tokens; of those that a draft proposed, how many the target accepted."""
    made, stats = len(result.token_ids), result.stats
    accepted = stats.accepted + stats.committed
    return {
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": made,
        "total_tokens": result.prompt_tokens + made,
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": stats.drafted + stats.candidates - accepted,
        },
    }


def error_object(error: EdgespecError) -> JsonObject:
    """OpenAI's object for an error."""
    kind = "invalid_request_error" if isinstance(error, UsageError) else "server_error"
    return {"error": {"message": str(error), "type": kind, "param": None, "code": None}}
