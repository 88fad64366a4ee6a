"""OpenAI's object for an error, with its names for what is wrong."""

from __future__ import annotations

import re

from edgespec.errors import EdgespecError, UsageError
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_absent import ABSENT
from edgespec.openai.openai_fields import TYPES

__all__ = ["UnknownUrlError", "error_object", "openai_error", "unexpected"]

# By the status of the answer: the field that an error is about, and OpenAI's code.
CODES: dict[int, tuple[str | None, str]] = {
    401: (None, "invalid_api_key"),
    404: ("model", "model_not_found"),
    405: (None, "method_not_allowed"),
    408: (None, "request_timeout"),
    413: (None, "request_too_large"),
    429: (None, "rate_limit_exceeded"),
    500: (None, "internal_error"),
    503: (None, "service_unavailable"),
}
RESPONSES = {"input", "instructions", "max_output_tokens", "reasoning", "text", "background"}
RESPONSES |= {"conversation", "previous_response_id"}
FIELDS = {*TYPES, *ABSENT, *RESPONSES, "messages", "prompt", "file"}
NUMBERED = {"message": "messages", "input": "input", "a tool": "tools"}
ABOUT = re.compile(r"([a-z_]+)(?:\.[a-z]+)?(?: of token \d+)? (?:is|has) ")
TOO_LONG = re.compile(r"the (?:prompt|text) has .* and the cache holds ")


class UnknownUrlError(UsageError):
    """Nothing is served at this path."""


def error_object(
    error: EdgespecError, param: str | None = None, code: str | None = None
) -> JsonObject:
    """OpenAI's object for an error.

    Args:
        param: the field that it is about.
        code: OpenAI's name for what is wrong.
    """
    kind = "invalid_request_error" if isinstance(error, UsageError) else "server_error"
    return {"error": {"message": str(error), "type": kind, "param": param, "code": code}}


def openai_error(error: EdgespecError, status: int) -> JsonObject:
    """The same with the field and the code that follow from the status and the message."""
    param, code = CODES.get(status, (None, None))
    if isinstance(error, UnknownUrlError) and status == 404:
        param, code = None, "unknown_url"
    elif status == 400:
        param, code = _about(str(error))
    return error_object(error, param, code)


def _about(message: str) -> tuple[str | None, str | None]:
    """The field that a refusal names first, and OpenAI's code for it."""
    if TOO_LONG.match(message):
        return "messages", "context_length_exceeded"
    for item, field in NUMBERED.items():
        if re.match(rf"{item}(?: \d+)? is ", message):
            return field, "invalid_value"
    named = ABOUT.match(message)
    if named is None or named[1] not in FIELDS:
        return None, None
    is_absent = ", which is not there; " in message
    return named[1], "unsupported_parameter" if is_absent else "invalid_value"


def unexpected(error: Exception) -> EdgespecError:
    """An error of this program that no check foresaw, as a line."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return EdgespecError(f"this request met an error of edgespec itself ({said}); please report it")
