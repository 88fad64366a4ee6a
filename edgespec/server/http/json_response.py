"""A whole answer as JSON."""

from __future__ import annotations

from starlette.responses import Response

from edgespec.openai.json_value import JsonValue, json_line

__all__ = ["JsonResponse"]


class JsonResponse(Response):
    """A response that can hold every text, also half a surrogate pair."""

    media_type = "application/json"

    def render(self, content: JsonValue) -> bytes:
        return json_line(content)
