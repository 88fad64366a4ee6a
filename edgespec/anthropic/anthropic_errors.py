"""Anthropic's object for an error."""

from __future__ import annotations

from edgespec.errors import EdgespecError
from edgespec.openai.json_value import JsonObject

__all__ = ["anthropic_error"]

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def anthropic_error(error: EdgespecError, status: int) -> JsonObject:
    """The error with the kind that its status has."""
    other = "invalid_request_error" if status < 500 else "api_error"
    return {"type": "error", "error": {"type": KINDS.get(status, other), "message": str(error)}}
