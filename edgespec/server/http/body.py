"""The body of a request, never more of it than the limit, and as a JSON object."""

from __future__ import annotations

import asyncio
import json

from starlette.requests import Request as HttpRequest

from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.server.limits import Limits

__all__ = ["BodySizeError", "BodyTimeoutError", "checked_size", "json_object", "read_body"]

SENT_BY_BROWSERS = ("origin", "sec-fetch-site")  # with every POST of a page


class BodySizeError(UsageError):
    """The body has more bytes than the server reads. Status 413."""


class BodyTimeoutError(UsageError):
    """The body did not arrive in time. Status 408."""


async def read_body(http: HttpRequest, limits: Limits) -> bytes:
    """The request's body, which has to say that it is JSON where a browser sends it.

    Raises:
        BodySizeError: by its Content-Length, or as soon as more bytes than the limit have come.
        BodyTimeoutError: it was not complete in time.
        UsageError: a browser sends it as another content type.
        starlette.requests.ClientDisconnect: the client left in the middle of the body.
    """
    _check_content_type(http)
    try:
        async with asyncio.timeout(limits.timeout):
            return await _read(http, limits.max_body)
    except TimeoutError:
        raise BodyTimeoutError(
            f"the body did not arrive within {limits.timeout:g} s; send it faster, or start the "
            "server with a longer --timeout"
        ) from None


def json_object(text: bytes) -> JsonObject:
    """Raises UsageError unless the text is a JSON object."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:80]
        raise UsageError(f"the request is no JSON ({reason}); send a JSON object") from None
    if not isinstance(body, dict):
        raise UsageError(f"the request is {shortened(body)}; send a JSON object")
    return body


def _check_content_type(http: HttpRequest) -> None:
    """A web page can send other types than JSON to this server without asking first (CORS).
    Programs may: curl names a form's type unless it is told otherwise, as in Ollama's examples."""
    content_type = http.headers.get("content-type", "")
    is_json = content_type.partition(";")[0].strip().lower() == "application/json"
    if not is_json and any(header in http.headers for header in SENT_BY_BROWSERS):
        raise UsageError(
            f"the request's Content-Type is {shortened(content_type)}, no JSON; send "
            "application/json"
        )


async def _read(http: HttpRequest, max_bytes: int) -> bytes:
    checked_size(http, max_bytes)
    body = bytearray()
    async for part in http.stream():
        checked_size(len(body) + len(part), max_bytes)
        body += part
    return bytes(body)


def checked_size(body: HttpRequest | int, max_bytes: int, option: str = "--max-body") -> None:
    """Raises BodySizeError for a body that is too large.

    Args:
        body: its request, which may announce its size, or the bytes that have come.
        option: that sets the limit.
    """
    if isinstance(body, int):
        what = "is larger" if body > max_bytes else None
    else:
        announced = body.headers.get("content-length", "")
        known = announced.isascii() and announced.isdecimal() and _above(announced, max_bytes)
        what = f"has {shortened(announced)[1:-1]} bytes" if known else None
    if what is not None:
        raise BodySizeError(
            f"the body {what}; the limit is {max_bytes} bytes: send less, or start the server with "
            f"a larger {option}"
        )


def _above(digits: str, limit: int) -> bool:
    """Whether the number is larger; Python refuses to convert thousands of digits."""
    digits = digits.lstrip("0")
    return len(digits) > 20 or int(digits or "0") > limit
