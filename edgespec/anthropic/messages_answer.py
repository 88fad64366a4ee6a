"""Anthropic's messages, whole and streamed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence

from edgespec.openai.answer_events import Event
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.pair.generation import Chunk, Generation
from edgespec.tools.answer_reader import AnswerForm, Block, BlockReader, BlockStep, whole_blocks

__all__ = ["MessageAnswer"]

REASONS = {
    "eos": "end_turn",
    "stop": "stop_sequence",
    "max_tokens": "max_tokens",
    "capacity": "model_context_window_exceeded",
}
DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


class MessageAnswer:
    """The answer to one request; see `Answering`.

    Args:
        model: the model's name.
        form: what the text may have in it.
        stops: the request's stop sequences.
    """

    def __init__(self, model: str, form: AnswerForm, stops: Sequence[str]) -> None:
        self._model = model
        self._form = form
        self._stops = stops
        self._id = f"msg_{uuid.uuid4().hex[:24]}"
        self._blocks: BlockReader | None = None

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The message."""
        (result,) = results
        blocks = whole_blocks(self._form.reader(result.opens_thinking), result.text)
        ended = {"content": [_whole(block) for block in blocks], **self._end(result, blocks)}
        return self._message(result, len(result.token_ids), ended)

    def begin(self, number: int, result: Generation) -> Sequence[Event]:
        """The message without its content."""
        self._blocks = BlockReader(self._form.reader(result.opens_thinking))
        fields: JsonObject = {"content": [], "stop_reason": None, "stop_sequence": None}
        message = self._message(result, 0, fields)
        return [_event("message_start", message=message), _event("ping")]

    def piece(self, number: int, chunk: Chunk) -> Sequence[Event]:
        """Blocks that begin, grow and end."""
        assert self._blocks is not None
        return [*_events(self._blocks.read(chunk.text))]

    def end(self, number: int, result: Generation) -> Sequence[Event]:
        """The end of the last block, and why the text ended."""
        assert self._blocks is not None
        events = [*_events(self._blocks.read("", last=True))]
        usage = {"output_tokens": len(result.token_ids)}
        delta = self._end(result, self._blocks.blocks)
        return [*events, _event("message_delta", delta=delta, usage=usage)]

    def last(self, results: Sequence[Generation]) -> Sequence[Event]:
        """The end of the message."""
        return [_event("message_stop")]

    def _message(self, result: Generation, tokens: int, fields: JsonObject) -> JsonObject:
        usage = {"input_tokens": result.prompt_tokens, "output_tokens": tokens}
        common = {"id": self._id, "type": "message", "role": "assistant", "model": self._model}
        return {**common, **fields, "usage": usage}

    def _end(self, result: Generation, blocks: Sequence[Block]) -> JsonObject:
        reason = REASONS[result.finish_reason]
        if reason == "end_turn" and any(block.kind == "call" for block in blocks):
            reason = "tool_use"
        stopped = result.finish_reason == "stop" and len(self._stops) == 1
        return {"stop_reason": reason, "stop_sequence": self._stops[0] if stopped else None}


def _whole(block: Block) -> JsonObject:
    match block.kind:
        case "text":
            return {"type": "text", "text": block.text}
        case "thinking":
            return {"type": "thinking", "thinking": block.text, "signature": ""}
    return {**_called(block), "input": _object(block.text)}


def _called(block: Block) -> JsonObject:
    name = f"toolu_{uuid.uuid4().hex[:24]}"
    return {"type": "tool_use", "id": name, "name": block.name, "input": {}}


def _object(text: str) -> JsonValue:
    """A call's arguments; those that a limit cut off are none."""
    try:
        read: JsonValue = json.loads(text)
    except ValueError:
        return {}
    return read


def _events(steps: Iterator[BlockStep]) -> Iterator[Event]:
    for what, block, text in steps:
        if what == "begin":
            empty = _called(block) if block.kind == "call" else _whole(block)
            yield _event("content_block_start", index=block.index, content_block=empty)
        elif what == "more":
            kind, field = DELTAS[block.kind]
            delta = {"type": kind, field: text}
            yield _event("content_block_delta", index=block.index, delta=delta)
        else:
            yield _event("content_block_stop", index=block.index)


def _event(kind: str, /, **fields: JsonValue) -> Event:
    return Event({"type": kind, **fields}, kind)
