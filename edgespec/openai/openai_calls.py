"""The parts of an answer in OpenAI's form, whole and streamed: thinking, text and calls."""

from __future__ import annotations

import uuid

from edgespec.chat.reasoning import Thought
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.tools.answer_reader import AnswerReader, whole_blocks
from edgespec.tools.call_reader import ToolCallPiece

__all__ = ["AnswerCalls", "call_id"]


class AnswerCalls:
    """Splits one answer into its thinking, its text and its calls.

    Thinking is in the field `reasoning_content`, as at DeepSeek, llama.cpp, vLLM and SGLang.
    """

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader

    @property
    def found(self) -> bool:
        """Whether a call has begun."""
        return self._reader.has_calls

    def message(self, text: str) -> JsonObject:
        """The fields of a message whose whole text this is."""
        blocks = whole_blocks(self._reader, text)
        content = "".join(block.text for block in blocks if block.kind == "text")
        thinking = "".join(block.text for block in blocks if block.kind == "thinking")
        calls: list[JsonValue] = [
            {
                "id": call_id(),
                "type": "function",
                "function": {"name": block.name, "arguments": block.text},
            }
            for block in blocks
            if block.kind == "call"
        ]
        fields: JsonObject = {"content": (content or None) if calls else content}
        if thinking:
            fields = {**fields, "reasoning_content": thinking}
        return {**fields, "tool_calls": calls} if calls else fields

    def delta(self, text: str, last: bool = False) -> JsonObject:
        """The fields of an event for more of the text; none where nothing is certain yet."""
        content = thinking = ""
        calls: list[JsonValue] = []
        for piece in self._reader.read(text, last):
            if isinstance(piece, ToolCallPiece):
                calls.append(_piece(piece))
            elif isinstance(piece, Thought):
                thinking += piece
            else:
                content += piece
        return {
            **({"reasoning_content": thinking} if thinking else {}),
            **({"content": content} if content else {}),
            **({"tool_calls": calls} if calls else {}),
        }


def _piece(piece: ToolCallPiece) -> JsonObject:
    if piece.name is None:
        return {"index": piece.index, "function": {"arguments": piece.arguments}}
    function = {"name": piece.name, "arguments": ""}
    return {"index": piece.index, "id": call_id(), "type": "function", "function": function}


def call_id() -> str:
    """A new name for a call."""
    return f"call_{uuid.uuid4().hex[:24]}"
