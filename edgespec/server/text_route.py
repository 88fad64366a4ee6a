"""A route that answers with texts, in any interface: whole, or in pieces as they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from edgespec.errors import UsageError
from edgespec.openai.answer_events import Answering, Event
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_api import Request
from edgespec.pair.concurrent.async_batch import AsyncStream, interleaved
from edgespec.pair.generation import Chunk
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import Prompt
from edgespec.server.guarded_route import GuardedRoute, while_waited_for
from edgespec.server.http.body import json_object, read_body
from edgespec.server.http.event_stream import EventStream
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.request_record import RequestRecord
from edgespec.server.served import Served
from edgespec.server.served_model import ServedModel
from edgespec.server.text_apis import Asked, TextApi

__all__ = ["TextRoute"]


class _Read(NamedTuple):
    """A request that was read, its answer to come, and its prompts as token ids."""

    model: ServedModel
    request: Request
    answer: Answering
    prompts: Sequence[Prompt]
    options: GenerationOptions


class TextRoute(GuardedRoute):
    """The ASGI application of one route."""

    def __init__(self, served: Served, api: TextApi) -> None:
        super().__init__(served, api.path, api.framing)
        self._api = api

    async def respond(
        self, http: HttpRequest, events: EventStream, record: RequestRecord
    ) -> Response | None:
        self._served.by_name.check()  # before the body takes memory
        body = await read_body(http, self._served.limits)
        try:
            async with while_waited_for(http):
                whole = await self._answer(body, events, record)
        except UsageError as error:
            raise self._api.named(error) from None
        return None if whole is None else JsonResponse(whole)

    def _read(self, text: bytes, record: RequestRecord) -> _Read | JsonObject:
        """What a request asks; or the answer, if it asks for no text."""
        body = json_object(text)
        self._served.unknown.check(body, self._api.unknown)
        model = self._served.by_name.wanted(body.get("model"))
        record.model = model.name
        asked = self._api.read(body, model)
        if not isinstance(asked, Asked):
            return asked
        request, answer = asked
        options: GenerationOptions = {**request.options, **self._served.drafting}
        prompts = [model.batch.batch.encoded(prompt, options) for prompt in request.prompts]
        return _Read(model, request, answer, prompts, options)

    async def _answer(
        self, body: bytes, events: EventStream, record: RequestRecord
    ) -> JsonObject | None:
        read = await self._served.readers.run(partial(self._read, body, record))
        if not isinstance(read, _Read):
            return read
        model, request, answer, prompts, options = read
        model.check()
        streams = [
            stream
            for prompt in prompts
            for stream in model.batch.sample_streams(prompt, request.n, **options)
        ]
        try:
            async with aclosing(interleaved(streams)) as chunks:
                if request.streams:
                    await _send_events(answer, streams, _counted(chunks, record), events)
                    return None
                async for _ in _counted(chunks, record):
                    pass
                return answer.whole([stream.result for stream in streams])
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
