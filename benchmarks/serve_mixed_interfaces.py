"""The interfaces of the server as serve_mixed.py asks them: requests, and the texts of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serve_load import RequestError

__all__ = ["INTERFACES", "Interface"]

Fields = Mapping[str, Any]
Event = dict[str, Any]


@dataclass(frozen=True)
class Interface:
    """One interface.

    Attributes:
        path: of its requests.
        chats: a prompt is a message, so that greedy texts are those of the other chats.
        seeds: a request can have a seed.
        fields: of a request, without its prompt.
        whole: the text of an answer that is one object.
        piece: the text in an event of a stream.
        is_last: whether an event ends a stream.
    """

    path: str
    chats: bool
    seeds: bool
    fields: Callable[[Fields], Fields]
    whole: Callable[[Event], str]
    piece: Callable[[Event], str]
    is_last: Callable[[Event], bool]

    def body(self, prompt: str, fields: Fields, streams: bool) -> Event:
        """A request."""
        asked: Event = {"prompt": prompt}
        if self.chats:
            name = "input" if "responses" in self.path else "messages"
            asked = {name: [{"role": "user", "content": prompt}]}
        return {"model": "any", "stream": streams, **asked, **self.fields(fields)}

    def family(self, sampled: bool) -> str:
        """The interfaces whose texts of this kind are the same."""
        return "chat" if self.chats and not sampled else self.path

    def text(self, lines: Sequence[bytes], streams: bool) -> str:
        """The text of an answer. Raises RequestError if it is not whole."""
        events = list(_events(lines))
        if not streams:
            if len(events) != 1:
                raise RequestError(f"the answer is no object: {b''.join(lines)!r}")
            return self.whole(events[0])
        if not events or not self.is_last(events[-1]):
            raise RequestError(f"the stream ends with {lines[-3:]!r}")
        return "".join(self.piece(event) for event in events)


DONE: Event = {"done": True}


def _events(lines: Sequence[bytes]) -> Iterator[Event]:
    for line in lines:
        data = line.removeprefix(b"data: ").strip()
        if data == b"[DONE]":
            yield DONE
        elif data.startswith(b"{"):
            yield json.loads(data)


def _choice(event: Event) -> Event:
    return next(iter(event.get("choices") or [{}]))


def _renamed(**names: str) -> Callable[[Fields], Fields]:
    return lambda fields: {names.get(name, name): value for name, value in fields.items()}


def _ollama_options(fields: Fields) -> Fields:
    return {"options": _renamed(max_tokens="num_predict")(fields)}


INTERFACES = (
    Interface(
        "/v1/chat/completions",
        chats=True,
        seeds=True,
        fields=dict,
        whole=lambda event: _choice(event)["message"]["content"],
        piece=lambda event: _choice(event).get("delta", {}).get("content") or "",
        is_last=lambda event: event is DONE,
    ),
    Interface(
        "/v1/completions",
        chats=False,
        seeds=True,
        fields=dict,
        whole=lambda event: _choice(event)["text"],
        piece=lambda event: _choice(event).get("text") or "",
        is_last=lambda event: event is DONE,
    ),
    Interface(
        "/v1/responses",
        chats=True,
        seeds=False,
        fields=_renamed(max_tokens="max_output_tokens"),
        whole=lambda event: event["output"][0]["content"][0]["text"],
        piece=lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
        is_last=lambda event: event["type"] in ("response.completed", "response.incomplete"),
    ),
    Interface(
        "/v1/messages",
        chats=True,
        seeds=False,
        fields=dict,
        whole=lambda event: event["content"][0]["text"],
        piece=lambda event: (
            event["delta"]["text"] if event["type"] == "content_block_delta" else ""
        ),
        is_last=lambda event: event["type"] == "message_stop",
    ),
    Interface(
        "/api/chat",
        chats=True,
        seeds=True,
        fields=_ollama_options,
        whole=lambda event: event["message"]["content"],
        piece=lambda event: event.get("message", {}).get("content", ""),
        is_last=lambda event: event.get("done") is True,
    ),
)
