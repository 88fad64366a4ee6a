"""The routes of the server: OpenAI's completions and models; health and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import NoReturn, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_answer import Answer
from edgespec.openai.openai_api import Request, chat_request, error_object, text_request, unexpected
from edgespec.openai.unknown_fields import UnknownFields
from edgespec.pair.concurrent.async_batch import AsyncStream, interleaved
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.generation import Chunk
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.server.access import Access, Hosts
from edgespec.server.body import BodySizeError, BodyTimeoutError, json_object, read_body
from edgespec.server.event_stream import EventStream, timed
from edgespec.server.json_response import JsonResponse
from edgespec.server.limits import Limits
from edgespec.server.listening import EVERYWHERE, in_url
from edgespec.server.metrics import METRICS_TYPE, metrics
from edgespec.server.origins import Origins
from edgespec.server.served_model import (
    QueueFullError,
    ServedModel,
    ServedModels,
    UnknownModelError,
)

__all__ = ["application"]

LOCAL = ("localhost", "127.0.0.1", "[::1]")
CLIENT_LEFT = 499  # nginx's status for a request whose client has left; nobody reads it
RETRY_AFTER = {"Retry-After": "1"}  # seconds

logger = logging.getLogger("edgespec")

READERS = 2  # requests that are read at once; reading checks grammars and renders templates

T = TypeVar("T")


class StoppingError(EdgespecError):
    """The server was interrupted. Status 503."""


STATUSES: dict[type[EdgespecError], int] = {
    BodySizeError: 413,
    BodyTimeoutError: 408,
    QueueFullError: 429,
    StoppingError: 503,
    UnknownModelError: 404,
    UsageError: 400,
    EdgespecError: 500,
}


def application(
    pairs: Mapping[str, Pair],
    drafting: GenerationOptions,
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    api_key: str | None = None,
    origins: Sequence[str] = (),
    strict: bool = False,
) -> Starlette:
    """The ASGI application; its `state.stopping` is an event that ends every request.

    Args:
        pairs: by the models' names in requests and answers.
        drafting: options of `Pair.stream` that no request decides: draft, gamma, rule.
        limits: of each pair; default: `Limits()`.
        host: the address it listens at. Requests must name this host or a local one (the header
            Host): a web page can reach a local server by a name of its own (DNS rebinding), and
            is refused by this.
        api_key: what requests must bring; None for no key.
        origins: of web pages that may use the server; see `Origins`.
        strict: requests with unknown fields are refused.

    Raises:
        UsageError: no page can have one of the origins.
    """
    served = _Served(pairs, drafting, limits or Limits(), strict)
    routes = [
        Route("/v1/models", served.models),
        Route("/v1/models/{name:path}", served.model),
        Route("/v1/chat/completions", _Completions(served, is_chat=True), methods=["POST"]),
        Route("/v1/completions", _Completions(served, is_chat=False), methods=["POST"]),
        Route("/health", _health),
        Route("/metrics", served.metrics),
    ]
    names = dict.fromkeys([*LOCAL, in_url(host).lower()])
    hosts = [] if host in EVERYWHERE else [Middleware(Hosts, names=list(names))]
    allowed = Origins(origins)
    access = Middleware(Access, api_key=api_key, origins=allowed)
    browsers = Middleware(
        CORSMiddleware,
        allow_origin_regex=allowed.expression,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
    )
    middleware = [*hosts, browsers, access] if allowed else [*hosts, access]
    no_route = {404: _no_route, 405: _no_route}
    starlette = Starlette(routes=routes, middleware=middleware, exception_handlers=no_route)
    starlette.state.stopping = served.stopping
    return starlette


async def _no_route(http: HttpRequest, error: Exception) -> Response:
    """OpenAI's object also for what is not here, such as embeddings."""
    assert isinstance(error, HTTPException)
    asked = shortened(f"{http.method} {http.url.path}")[1:-1]
    refused = UsageError(
        f"{asked} is not there; this server has POST /v1/chat/completions, POST /v1/completions "
        "and GET /v1/models"
    )
    return JsonResponse(error_object(refused), error.status_code, error.headers)


async def _health(_: HttpRequest) -> Response:
    return JsonResponse({"status": "ok"})


class _Served:
    """The pairs, and what all routes share."""

    def __init__(
        self,
        pairs: Mapping[str, Pair],
        drafting: GenerationOptions,
        limits: Limits,
        strict: bool,
    ) -> None:
        self.drafting = drafting
        self.limits = limits
        self.by_name = ServedModels(pairs, limits)
        self.stopping = asyncio.Event()
        self.unknown = UnknownFields(strict)
        self.readers = DaemonThreads(READERS)

    async def models(self, _: HttpRequest) -> Response:
        cards = [model.card for model in self.by_name.all]
        return JsonResponse({"object": "list", "data": cards})

    async def model(self, http: HttpRequest) -> Response:
        try:
            return JsonResponse(self.by_name.named(http.path_params["name"]).card)
        except UnknownModelError as error:
            return _refusal(error)

    async def metrics(self, _: HttpRequest) -> Response:
        return Response(metrics(self.by_name.all), media_type=METRICS_TYPE)

    async def until_stopped(self) -> NoReturn:
        await self.stopping.wait()
        raise StoppingError("the server is stopping; start it again")


class _Completions:
    """The ASGI application of one route: chat completions or completions."""

    def __init__(self, served: _Served, is_chat: bool) -> None:
        self._served = served
        self._is_chat = is_chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = timed(send, self._served.limits.timeout)
        events = EventStream(send)
        try:
            http = HttpRequest(scope, receive)
            whole = await _first(self._respond(http, events), self._served.until_stopped())
            response: Response | None = None if whole is None else JsonResponse(whole)
        except ClientDisconnect:
            response = None if events.started else Response(status_code=CLIENT_LEFT)
        except EdgespecError as error:
            response = None if events.started else _refusal(error)
            if events.started:  # too late for a status
                await events.event(error_object(error))
                await events.close()
        except Exception as error:  # of this program; a client gets JSON all the same
            logger.exception("a request failed")
            response = None if events.started else _refusal(unexpected(error))
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, http: HttpRequest, events: EventStream) -> JsonObject | None:
        """The answer as one object; None if it was sent as events."""
        self._served.by_name.check()  # before the body takes memory
        body = await read_body(http, self._served.limits)
        return await _first(self._answer(body, events), _until_left(http))

    def _read(self, text: bytes) -> tuple[ServedModel, Request, Answer]:
        """The model that a request is for, its call, and its answer to come."""
        body = json_object(text)
        self._served.unknown.check(body)
        model = self._served.by_name.wanted(body.get("model"))
        read = chat_request if self._is_chat else text_request
        request = read(body, model.pair.manifest.generation)
        form = request.call_form(model.pair.tool_use)
        echoes = request.echoes(model.pair.tokenizer)
        answer = Answer(model.name, self._is_chat, model.token_texts, form, request.n, echoes)
        return model, request, answer

    async def _answer(self, body: bytes, events: EventStream) -> JsonObject | None:
        model, request, answer = await self._served.readers.run(partial(self._read, body))
        options: GenerationOptions = {**request.options, **self._served.drafting}
        model.check()
        streams = [
            stream
            for prompt in request.prompts
            for stream in model.batch.sample_streams(prompt, request.n, **options)
        ]
        async with aclosing(interleaved(streams)) as chunks:
            if request.streams:
                await _send_events(request, answer, streams, chunks, events)
                return None
            async for _ in chunks:
                pass
            return answer.whole([stream.result for stream in streams])


async def _send_events(
    request: Request,
    answer: Answer,
    streams: Sequence[AsyncStream],
    chunks: AsyncIterator[tuple[int, Chunk | None]],
    events: EventStream,
) -> None:
    """Sends the chunks as they come. A request that cannot be answered fails before any event."""
    started: set[int] = set()
    async for number, chunk in chunks:
        if number not in started:
            started.add(number)
            await events.event(answer.begin(number, streams[number].result))
        if chunk is None:
            await events.event(answer.end(number, streams[number].result))
        elif (piece := answer.piece(number, chunk)) is not None:
            await events.event(piece)
    if request.counts:
        await events.event(answer.counts([stream.result for stream in streams]))
    await events.done()


async def _until_left(http: HttpRequest) -> NoReturn:
    """Waits until the client closes the connection; the body must have been read."""
    while (await http.receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect


async def _first(work: Awaitable[T], ends: Awaitable[NoReturn]) -> T:
    """The result of `work`, unless `ends` raises first. The other one is cancelled."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(ends))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else tasks[1].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _refusal(error: EdgespecError) -> Response:
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    headers = RETRY_AFTER if status in (429, 503) else None
    of_model = ("model", "model_not_found") if status == 404 else (None, None)
    return JsonResponse(error_object(error, *of_model), status_code=status, headers=headers)
