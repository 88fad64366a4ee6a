"""Answers of Ollama's API, whole and streamed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from edgespec.errors import EdgespecError
from edgespec.openai.answer_events import Event
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.pair.generation import Chunk, Generation
from edgespec.tools.answer_reader import AnswerForm, Block, BlockReader, whole_blocks

__all__ = ["OllamaAnswer", "now", "ollama_error"]


def ollama_error(error: EdgespecError, status: int) -> JsonObject:
    """Ollama's object for an error; its clients take the kind from the HTTP status."""
    return {"error": str(error)}


def now() -> str:
    """The time, as Ollama writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class OllamaAnswer:
    """The answer to one request; see `Answering`.

    Args:
        model: the model's name, as the request has it.
        form: what the text may have in it.
        is_chat: it is that of /api/chat, which has messages.
    """

    def __init__(self, model: str, form: AnswerForm, is_chat: bool) -> None:
        self._model = model
        self._form = form
        self._is_chat = is_chat
        self._started = time.perf_counter()
        self._blocks: BlockReader | None = None

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The message or the text, and its numbers."""
        (result,) = results
        blocks = whole_blocks(self._form.reader(result.opens_thinking), result.text)

        def joined(kind: str) -> str:
            return "".join(block.text for block in blocks if block.kind == kind)

        calls = [_call(block) for block in blocks if block.kind == "call"]
        said = self._said(joined("text"), joined("thinking"), calls)
        return {**said, **self._numbers(result)}

    def loaded(self) -> JsonObject:
        """The answer to a request for no text: models are loaded from the start to the end."""
        return {**self._said("", "", []), "done": True, "done_reason": "load"}

    def begin(self, number: int, result: Generation) -> Sequence[Event]:
        """Nothing."""
        self._blocks = BlockReader(self._form.reader(result.opens_thinking))
        return []

    def piece(self, number: int, chunk: Chunk) -> Sequence[Event]:
        """More of the text; a call is in one piece."""
        return [*self._events(chunk.text, last=False)]

    def end(self, number: int, result: Generation) -> Sequence[Event]:
        """What is left of the text, and the numbers."""
        rest = [*self._events("", last=True)]
        return [*rest, Event({**self._said("", "", []), **self._numbers(result)})]

    def last(self, results: Sequence[Generation]) -> Sequence[Event]:
        """Nothing."""
        return []

    def _events(self, text: str, last: bool) -> Iterator[Event]:
        assert self._blocks is not None
        for what, block, more in self._blocks.read(text, last):
            said: JsonObject = {}
            if what == "more" and block.kind != "call":
                thinks = block.kind == "thinking"
                said = self._said("" if thinks else more, more if thinks else "", [])
            elif what == "end" and block.kind == "call":
                said = self._said("", "", [_call(block)])
            if said:
                yield Event({**said, "done": False})

    def _said(self, text: str, thinking: str, calls: Sequence[JsonObject]) -> JsonObject:
        common: JsonObject = {"model": self._model, "created_at": now()}
        thought: JsonObject = {"thinking": thinking} if thinking else {}
        if not self._is_chat:
            return {**common, "response": text, **thought}
        called: JsonObject = {"tool_calls": calls} if calls else {}
        message = {"role": "assistant", "content": text, **thought, **called}
        return {**common, "message": message}

    def _numbers(self, result: Generation) -> JsonObject:
        """Tokens, and times in nanoseconds: in all, of the prompt with the first token, and of all
        other tokens. A wait for a free slot is part of the whole time only."""
        stats = result.stats
        ended = result.finish_reason in ("eos", "stop")
        return {
            "done": True,
            "done_reason": "stop" if ended else "length",
            "total_duration": _nanoseconds(time.perf_counter() - self._started),
            "load_duration": 0,
            "prompt_eval_count": result.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(stats.first_token_seconds),
            "eval_count": len(result.token_ids),
            "eval_duration": _nanoseconds(stats.seconds - stats.first_token_seconds),
        }


def _nanoseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


def _call(block: Block) -> JsonObject:
    try:
        arguments: JsonValue = json.loads(block.text)
    except ValueError:  # a limit cut it off
        arguments = {}
    return {"function": {"name": block.name, "arguments": arguments}}
