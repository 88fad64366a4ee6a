"""The calls of an answer in OpenAI's form, whole and streamed."""

from __future__ import annotations

import uuid

from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.tools.call_format import ToolCallFormat
from edgespec.tools.call_reader import ToolCallPiece, ToolCallReader

__all__ = ["AnswerCalls"]


class AnswerCalls:
    """Splits one answer into its text and its calls.

    Args:
        form: of the model's calls.
    """

    def __init__(self, form: ToolCallFormat) -> None:
        self._reader = ToolCallReader(form)

    @property
    def found(self) -> bool:
        """Whether a call has begun."""
        return self._reader.has_calls

    def message(self, text: str) -> JsonObject:
        """The fields of a message whose whole text this is."""
        content = ""
        calls: list[dict[str, str]] = []
        for piece in self._reader.read(text, last=True):
            if isinstance(piece, str):
                content += piece
            elif piece.name is not None:
                calls.append({"id": _call_id(), "name": piece.name, "arguments": ""})
            else:
                calls[-1]["arguments"] += piece.arguments
        if not calls:
            return {"content": content}
        return {"content": content or None, "tool_calls": [_whole(call) for call in calls]}

    def delta(self, text: str, last: bool = False) -> JsonObject:
        """The fields of an event for more of the text; none where nothing is certain yet."""
        content = ""
        calls: list[JsonValue] = []
        for piece in self._reader.read(text, last):
            if isinstance(piece, str):
                content += piece
            else:
                calls.append(_piece(piece))
        return {
            **({"content": content} if content else {}),
            **({"tool_calls": calls} if calls else {}),
        }


def _whole(call: dict[str, str]) -> JsonObject:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}


def _piece(piece: ToolCallPiece) -> JsonObject:
    if piece.name is None:
        return {"index": piece.index, "function": {"arguments": piece.arguments}}
    function = {"name": piece.name, "arguments": ""}
    return {"index": piece.index, "id": _call_id(), "type": "function", "function": function}


def _call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"
