"""An answer that is sent in pieces: server-sent events, or lines of JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Send

from edgespec.openai.answer_events import Event
from edgespec.openai.json_value import JsonObject, json_line

__all__ = ["EVENTS", "LINES", "NAMED_EVENTS", "EventStream", "Framing"]


@dataclass(frozen=True)
class Framing:
    """How the objects of a stream are written.

    Attributes:
        media_type: of the response.
        written: the bytes of an object.
        mark: what ends a complete answer.
        error: the name of an event with an error.
    """

    media_type: str
    written: Callable[[Event], bytes]
    mark: bytes = b""
    error: str | None = None


def _event(event: Event) -> bytes:
    name = b"" if event.name is None else f"event: {event.name}\n".encode()
    return name + b"data: " + json_line(event.data) + b"\n\n"


SSE = "text/event-stream; charset=utf-8"
EVENTS = Framing(SSE, _event, b"data: [DONE]\n\n")
NAMED_EVENTS = Framing(SSE, _event, error="error")
LINES = Framing("application/x-ndjson", lambda event: json_line(event.data) + b"\n")


class EventStream:
    """The objects of one response.

    Attributes:
        started: the response's header has been sent, so its status cannot change any more.
    """

    def __init__(self, send: Send, framing: Framing) -> None:
        self._send = send
        self._framing = framing
        self.started = False

    async def send(self, event: Event) -> None:
        """Sends an object."""
        await self._write(self._framing.written(event))

    async def done(self) -> None:
        """Ends a complete answer."""
        if self._framing.mark:
            await self._write(self._framing.mark)
        await self._close()

    async def fail(self, error: JsonObject) -> None:
        """Ends an answer that is not complete; there is no end mark, so that clients see it."""
        await self.send(Event(error, self._framing.error))
        await self._close()

    async def _close(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, part: bytes) -> None:
        if not self.started:
            # A proxy must not gather the pieces.
            headers = [
                (b"content-type", self._framing.media_type.encode()),
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
            ]
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": part, "more_body": True})
