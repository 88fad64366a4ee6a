"""An answer that is sent in pieces, as server-sent events."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

from edgespec.openai.json_value import JsonObject, json_line

__all__ = ["EventStream", "timed"]


def timed(send: Send, seconds: float) -> Send:
    """`send`, for which a client that accepts nothing for this time counts as gone."""

    async def sent(message: Message) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send(message)
        except TimeoutError:
            raise ClientDisconnect from None

    return sent


class EventStream:
    """The events of one response.

    Attributes:
        started: the response's header has been sent, so its status cannot change any more.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def event(self, data: JsonObject) -> None:
        """Sends an object as an event."""
        await self._data(json_line(data))

    async def done(self) -> None:
        """Ends a complete answer."""
        await self._data(b"[DONE]")
        await self.close()

    async def close(self) -> None:
        """Ends the response; without `done`, clients see that the answer is incomplete."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _data(self, text: bytes) -> None:
        if not self.started:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        part = b"data: " + text + b"\n\n"
        await self._send({"type": "http.response.body", "body": part, "more_body": True})
