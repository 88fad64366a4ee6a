"""The status of each kind of error, and its object in the form of the interface that was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import Response

from edgespec.anthropic.anthropic_errors import anthropic_error
from edgespec.errors import EdgespecError, UsageError
from edgespec.ollama.ollama_answer import ollama_error
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_errors import openai_error
from edgespec.server.http.body import BodySizeError, BodyTimeoutError
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.served_model import QueueFullError, UnknownModelError

__all__ = ["LoadingError", "StoppedError", "StoppingError", "error_object", "refusal"]

RETRY_AFTER = {"Retry-After": "1"}  # seconds


class StoppingError(EdgespecError):
    """The server takes no more requests. Status 503."""


class StoppedError(StoppingError):
    """The server stopped before a request that it took was answered."""


class LoadingError(EdgespecError):
    """The server has no models yet. Status 503."""


STATUSES: dict[type[EdgespecError], int] = {
    BodySizeError: 413,
    BodyTimeoutError: 408,
    LoadingError: 503,
    QueueFullError: 429,
    StoppingError: 503,
    UnknownModelError: 404,
    UsageError: 400,
    EdgespecError: 500,
}


def error_object(path: str, error: EdgespecError, status: int | None = None) -> JsonObject:
    """The object for an error.

    Args:
        path: that was asked; it says whose form the object has.
        status: of the answer; None for the error's own.
    """
    form: Callable[[EdgespecError, int], JsonObject] = openai_error
    if path.startswith("/v1/messages"):
        form = anthropic_error
    elif path.startswith("/api/"):
        form = ollama_error
    return form(error, _status(error) if status is None else status)


def refusal(
    path: str,
    error: EdgespecError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer for an error; the arguments are those of `error_object`."""
    status = _status(error) if status is None else status
    again = RETRY_AFTER if status in (429, 503) else {}
    content = error_object(path, error, status)
    return JsonResponse(content, status_code=status, headers={**again, **(headers or {})})


def _status(error: EdgespecError) -> int:
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
