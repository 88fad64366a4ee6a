"""OpenAI's responses, whole and streamed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

from edgespec.openai.answer_events import Event
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_answer import draft_counts
from edgespec.openai.openai_calls import call_id
from edgespec.pair.generation import Chunk, Generation
from edgespec.tools.answer_reader import AnswerForm, Block, BlockReader, BlockStep, whole_blocks

__all__ = ["ResponseAnswer"]

# Fields of a request that its response repeats, with what they are if the request says nothing.
REPEATED: JsonObject = {
    **{"instructions": None, "max_output_tokens": None, "metadata": {}, "temperature": None},
    **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "top_p": None},
    **{"reasoning": None, "text": {"format": {"type": "text"}}, "truncation": "disabled"},
    **{"previous_response_id": None, "store": False, "user": None},
}


class ResponseAnswer:
    """The answer to one request; see `Answering`.

    Args:
        model: the model's name.
        form: what the text may have in it.
        body: the request.
    """

    def __init__(self, model: str, form: AnswerForm, body: JsonObject) -> None:
        given = {name: body[name] for name in REPEATED if body.get(name) is not None}
        self._form = form
        self._common: JsonObject = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            **REPEATED,
            **given,
            "store": False,
        }
        self._blocks: BlockReader | None = None
        self._items: list[_Item] = []
        self._number = 0

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The response."""
        (result,) = results
        blocks = whole_blocks(self._form.reader(result.opens_thinking), result.text)
        return self._ended(result, [_Item(block) for block in blocks])

    def begin(self, number: int, result: Generation) -> Sequence[Event]:
        """The response without its output."""
        self._blocks = BlockReader(self._form.reader(result.opens_thinking))
        begun = {**self._common, "status": "in_progress", "output": [], "usage": None}
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=begun) for kind in kinds]

    def piece(self, number: int, chunk: Chunk) -> Sequence[Event]:
        """Items that begin, grow and end."""
        assert self._blocks is not None
        return [*self._events(self._blocks.read(chunk.text))]

    def end(self, number: int, result: Generation) -> Sequence[Event]:
        """The end of the last item, and the whole response."""
        assert self._blocks is not None
        events = [*self._events(self._blocks.read("", last=True))]
        response = self._ended(result, self._items)
        return [*events, self._event(f"response.{response['status']}", response=response)]

    def last(self, results: Sequence[Generation]) -> Sequence[Event]:
        """Nothing."""
        return []

    def _ended(self, result: Generation, items: Sequence[_Item]) -> JsonObject:
        is_whole = result.finish_reason in ("eos", "stop")
        status = "completed" if is_whole else "incomplete"
        output = [item.whole(status) for item in items]
        reason = None if is_whole else {"reason": "max_output_tokens"}
        return {
            **self._common,
            "status": status,
            "error": None,
            "incomplete_details": reason,
            "output": output,
            "usage": _usage(result),
        }

    def _events(self, steps: Iterator[BlockStep]) -> Iterator[Event]:
        for what, block, text in steps:
            if what == "begin":
                self._items.append(_Item(block))
            item = self._items[-1]
            place: JsonObject = {"item_id": item.id, "output_index": block.index}
            if what == "begin":
                yield self._event(
                    "response.output_item.added", output_index=block.index, item=item.begun()
                )
                if (part := item.part("")) is not None:
                    yield self._event(
                        "response.content_part.added", **place, content_index=0, part=part
                    )
            elif what == "more":
                yield self._event(f"{item.kind}.delta", **place, **item.where, delta=text)
            else:
                yield from self._end_of(item, place)

    def _end_of(self, item: _Item, place: JsonObject) -> Iterator[Event]:
        text = item.block.text
        whole = {"arguments": text} if item.block.kind == "call" else {"text": text}
        named = {"name": item.block.name} if item.block.kind == "call" else {}
        yield self._event(f"{item.kind}.done", **place, **item.where, **whole, **named)
        if (part := item.part(text)) is not None:
            yield self._event("response.content_part.done", **place, content_index=0, part=part)
        yield self._event(
            "response.output_item.done",
            output_index=item.block.index,
            item=item.whole("completed"),
        )

    def _event(self, kind: str, /, **fields: JsonValue) -> Event:
        self._number += 1
        return Event({"type": kind, "sequence_number": self._number - 1, **fields}, kind)


class _Item:
    """A part of the output: a message, thinking or a call.

    Attributes:
        block: what it is made of.
        kind: of the events with its text.
        where: which part of the item they are about.
    """

    def __init__(self, block: Block) -> None:
        beginning = {"text": "msg", "thinking": "rs", "call": "fc"}[block.kind]
        self.id = f"{beginning}_{uuid.uuid4().hex}"
        self.block = block
        self._call_id = call_id()
        kinds = {
            "text": "response.output_text",
            "thinking": "response.reasoning_text",
            "call": "response.function_call_arguments",
        }
        self.kind = kinds[block.kind]
        self.where: JsonObject = {} if block.kind == "call" else {"content_index": 0}
        if block.kind == "text":
            self.where = {**self.where, "logprobs": []}

    def begun(self) -> JsonObject:
        """The item without its text."""
        return self._item("in_progress", [], "")

    def whole(self, status: str) -> JsonObject:
        """The item with its text."""
        part = self.part(self.block.text)
        return self._item(status, [] if part is None else [part], self.block.text)

    def part(self, text: str) -> JsonObject | None:
        """The part of the item that has this text; a call has none."""
        match self.block.kind:
            case "text":
                return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            case "thinking":
                return {"type": "reasoning_text", "text": text}
        return None

    def _item(self, status: str, parts: Sequence[JsonValue], text: str) -> JsonObject:
        common: JsonObject = {"id": self.id, "status": status}
        match self.block.kind:
            case "text":
                return {**common, "type": "message", "role": "assistant", "content": parts}
            case "thinking":
                return {**common, "type": "reasoning", "summary": [], "content": parts}
        call = {"name": self.block.name, "arguments": text, "call_id": self._call_id}
        return {**common, "type": "function_call", **call}


def _usage(result: Generation) -> JsonObject:
    made = len(result.token_ids)
    return {
        "input_tokens": result.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0, **draft_counts([result])},
        "total_tokens": result.prompt_tokens + made,
    }
