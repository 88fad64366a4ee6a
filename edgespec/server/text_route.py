"""A route that answers with texts, in any interface: whole, or in pieces as they are made."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import NoReturn

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgespec.errors import EdgespecError
from edgespec.openai.answer_events import Answering, Event
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_errors import unexpected
from edgespec.pair.concurrent.async_batch import AsyncStream, interleaved
from edgespec.pair.generation import Chunk
from edgespec.pair.generation_options import GenerationOptions
from edgespec.server.http.body import json_object, read_body
from edgespec.server.http.event_stream import EventStream, timed
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.request_record import RequestRecord, record_of
from edgespec.server.served import Served, first_of
from edgespec.server.served_model import ServedModel
from edgespec.server.statuses import error_object, refusal
from edgespec.server.text_apis import Asked, TextApi

__all__ = ["CLIENT_LEFT", "TextRoute", "until_left"]

CLIENT_LEFT = 499  # nginx's status for a request whose client has left; nobody reads it

logger = logging.getLogger("edgespec.server")


class TextRoute:
    """The ASGI application of one route."""

    def __init__(self, served: Served, api: TextApi) -> None:
        self._served = served
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = timed(send, self._served.limits.timeout)
        events = EventStream(send, self._api.framing)
        record = record_of(scope)
        try:
            http = HttpRequest(scope, receive)
            whole = await self._served.until_stopped(self._respond(http, events, record))
            response: Response | None = None if whole is None else JsonResponse(whole)
        except ClientDisconnect:
            record.left = True
            response = None if events.started else Response(status_code=CLIENT_LEFT)
        except Exception as error:
            response = await self._failed(error, events, record)
        if response is not None:
            await response(scope, receive, send)

    async def _failed(
        self, error: Exception, events: EventStream, record: RequestRecord
    ) -> Response | None:
        """The answer for an error; None if it was sent as an event, too late for a status."""
        path = self._api.path
        if not isinstance(error, EdgespecError):  # of this program; a client gets JSON all the same
            logger.error("a request failed", exc_info=error)
            error = unexpected(error)
        if not events.started:
            return refusal(path, error)
        record.failed = True
        with suppress(ClientDisconnect):
            await events.fail(error_object(path, error))
        return None

    async def _respond(
        self, http: HttpRequest, events: EventStream, record: RequestRecord
    ) -> JsonObject | None:
        """The answer as one object; None if it was sent as events."""
        self._served.check()  # before the body takes memory
        body = await read_body(http, self._served.limits)
        return await first_of(self._answer(body, events, record), until_left(http))

    def _read(self, text: bytes) -> tuple[ServedModel, Asked]:
        """The model that a request is for, and what it asks."""
        body = json_object(text)
        self._served.unknown.check(body, self._api.unknown)
        model = self._served.by_name.wanted(body.get("model"))
        return model, self._api.read(body, model)

    async def _answer(
        self, body: bytes, events: EventStream, record: RequestRecord
    ) -> JsonObject | None:
        model, asked = await self._served.readers.run(partial(self._read, body))
        record.model = model.name
        request = asked.request
        options: GenerationOptions = {**request.options, **self._served.drafting}
        model.check()
        streams = [
            stream
            for prompt in request.prompts
            for stream in model.batch.sample_streams(prompt, request.n, **options)
        ]
        try:
            async with aclosing(interleaved(streams)) as chunks:
                if request.streams:
                    await _send_events(asked.answer, streams, _counted(chunks, record), events)
                    return None
                async for _ in _counted(chunks, record):
                    pass
                return asked.answer.whole([stream.result for stream in streams])
        finally:
            record.add_results([s.result for s in streams if s.has_begun], request.n)


async def _counted(
    chunks: AsyncIterator[tuple[int, Chunk | None]], record: RequestRecord
) -> AsyncIterator[tuple[int, Chunk | None]]:
    async for number, chunk in chunks:
        if chunk is not None:
            record.add_chunk(chunk)
        yield number, chunk


async def _send_events(
    answer: Answering,
    streams: Sequence[AsyncStream],
    chunks: AsyncIterator[tuple[int, Chunk | None]],
    stream: EventStream,
) -> None:
    """Sends the chunks as they come. A request that cannot be answered fails before any event."""

    async def send(events: Sequence[Event]) -> None:
        for event in events:
            await stream.send(event)

    started: set[int] = set()
    async for number, chunk in chunks:
        if number not in started:
            started.add(number)
            await send(answer.begin(number, streams[number].result))
        if chunk is None:
            await send(answer.end(number, streams[number].result))
        else:
            await send(answer.piece(number, chunk))
    await send(answer.last([stream.result for stream in streams]))
    await stream.done()


async def until_left(http: HttpRequest) -> NoReturn:
    """Waits until the client closes the connection; the body must have been read."""
    while (await http.receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect
