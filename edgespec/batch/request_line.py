"""A line of a batch's input, as a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_api import Request, chat_request, text_request
from edgespec.openai.openai_fields import TO_128
from edgespec.pair.generation_options import GenerationOptions

__all__ = ["RefusedLine", "RequestLine", "read_line"]

CHAT_URL, TEXT_URL = "/v1/chat/completions", "/v1/completions"
FIELDS = ("custom_id", "method", "url", "body")  # of a line in OpenAI's batch format


@dataclass(frozen=True)
class RequestLine:
    """A line of the input.

    Attributes:
        number: of the line in the file, from 1.
        custom_id: the line's own name, or "line-<number>".
        is_chat: the body is a chat completion's, not a completion's.
        body: a request as at `edgespec serve`.
        is_bare: the line is a body alone, without OpenAI's url: a text in it is a prompt as the
            command line takes it, in the model's chat format if it has one.
        text: the line as it is in the file.
    """

    number: int
    custom_id: str
    is_chat: bool
    body: JsonObject
    is_bare: bool
    text: bytes

    @property
    def texts(self) -> int:
        """How many texts it asks for; 1 where it asks for none that can be made."""
        n, prompts = self.body.get("n"), self.body.get("prompt")
        several = isinstance(prompts, list) and any(isinstance(p, str | list) for p in prompts)
        count = len(prompts) if several and isinstance(prompts, list) else 1
        return count * (n if isinstance(n, int) and TO_128.holds(n) else 1)

    def request(self, own: GenerationDefaults, instead: GenerationOptions) -> Request:
        """The line as a call of `Pair.stream`; the arguments are those of `chat_request`.

        Raises:
            UsageError: a field is unknown, or its value is not allowed.
        """
        if self.body.get("stream"):
            raise UsageError("stream is true, but a batch has whole answers; leave it out")
        if self.is_chat:
            return chat_request(self.body, own, instead)
        return text_request(self.body, own, {"chat": None, **instead} if self.is_bare else instead)


@dataclass(frozen=True)
class RefusedLine:
    """A line that is no request.

    Attributes:
        number: of the line in the file, from 1.
        custom_id: the line's own name if it can be read, or "line-<number>".
        error: what is wrong with it.
    """

    number: int
    custom_id: str
    error: EdgespecError


def read_line(number: int, line: bytes) -> RequestLine | RefusedLine:
    """A line in OpenAI's batch format, or the body of a request alone."""
    custom_id = f"line-{number}"
    try:
        value = _json_object(line)
        custom_id = _custom_id(value, custom_id)
        return RequestLine(number, custom_id, *_request(value), line)
    except UsageError as error:
        return RefusedLine(number, custom_id, error)


def _json_object(line: bytes) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # UTF-8 that is none is a ValueError
        raise UsageError(f"the line is no JSON ({str(error)[:80]}); give an object") from None
    if not isinstance(value, dict):
        raise UsageError(f"the line is {shortened(value)}; give a JSON object")
    return value


def _custom_id(value: JsonObject, usual: str) -> str:
    custom_id = value.get("custom_id", usual)
    if not isinstance(custom_id, str):
        raise UsageError(f"custom_id is {shortened(custom_id)}; give a text")
    return custom_id


def _request(value: JsonObject) -> tuple[bool, JsonObject, bool]:
    """Whether the line is a chat completion's, its body, and whether it is the body alone."""
    if "body" in value or "url" in value:
        return _is_chat(value), _body(value), False
    body = {name: field for name, field in value.items() if name != "custom_id"}
    if "messages" not in body and "prompt" not in body:
        raise UsageError("the line has neither messages nor a prompt, nor a url and a body")
    return "messages" in body, body, True


def _is_chat(value: JsonObject) -> bool:
    url, method = value.get("url"), value.get("method", "POST")
    if url not in (CHAT_URL, TEXT_URL):
        raise UsageError(f"url is {shortened(url)}; give {CHAT_URL} or {TEXT_URL}")
    if method != "POST":
        raise UsageError(f"method is {shortened(method)}; give POST")
    return url == CHAT_URL


def _body(value: JsonObject) -> JsonObject:
    unknown = sorted(value.keys() - set(FIELDS))
    if unknown:
        raise UsageError(f"{shortened(unknown[0])[1:-1]} is not known here; leave it out")
    body = value.get("body")
    if not isinstance(body, Mapping):
        raise UsageError(f"body is {shortened(body)}; give an object")
    return body
