"""The routes of the server: OpenAI's completions and models; health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_api import Answer, Request, chat_request, error_object, text_request
from edgespec.openai.openai_calls import AnswerCalls
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.pair.generation import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.server.access import Access
from edgespec.server.body import BodySizeError, BodyTimeoutError, read_json
from edgespec.server.event_stream import EventStream, timed
from edgespec.server.limits import Limits
from edgespec.server.listening import EVERYWHERE, in_url
from edgespec.server.metrics import METRICS_TYPE, metrics
from edgespec.server.text_pool import QueueFullError, ServedText, TextPool

__all__ = ["application"]

LOCAL = ("localhost", "127.0.0.1", "[::1]")
CLIENT_LEFT = 499  # nginx's status for a request whose client has left; nobody reads it
RETRY_AFTER = {"Retry-After": "1"}  # seconds

T = TypeVar("T")


class StoppingError(EdgespecError):
    """The server was interrupted. Status 503."""


STATUSES: dict[type[EdgespecError], int] = {
    BodySizeError: 413,
    BodyTimeoutError: 408,
    QueueFullError: 429,
    StoppingError: 503,
    UsageError: 400,
    EdgespecError: 500,
}


def application(
    pair: Pair,
    name: str,
    drafting: GenerationOptions,
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    api_key: str | None = None,
    origins: Sequence[str] = (),
) -> Starlette:
    """The ASGI application; its `state.stopping` is an event that ends every request.

    Args:
        name: the model's name in answers.
        drafting: options of `Pair.stream` that no request decides: draft, gamma, rule.
        limits: default: `Limits()`.
        host: the address it listens at. Requests must name this host or a local one (the header
            Host): a web page can reach a local server by a name of its own (DNS rebinding), and
            is refused by this.
        api_key: what requests must bring; None for no key.
        origins: of web pages that may use the server.
    """
    served = _Served(pair, name, drafting, limits or Limits())
    own = pair.manifest.generation
    chat = _Completions(served, partial(chat_request, own=own), True)
    text = _Completions(served, partial(text_request, own=own), False)
    routes = [
        Route("/v1/models", served.models),
        Route("/v1/models/{name:path}", served.model),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", text, methods=["POST"]),
        Route("/health", _health),
        Route("/metrics", served.metrics),
    ]
    hosts = ["*"] if host in EVERYWHERE else [*LOCAL, in_url(host)]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    access = Middleware(Access, api_key=api_key, origins=origins)
    browsers = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
    )
    middleware = [trusted, browsers, access] if origins else [trusted, access]
    starlette = Starlette(routes=routes, middleware=middleware)
    starlette.state.stopping = served.stopping
    return starlette


async def _health(_: HttpRequest) -> Response:
    return JSONResponse({"status": "ok"})


@dataclass
class _Served:
    """The pair, and what all routes share."""

    pair: Pair
    name: str
    drafting: GenerationOptions
    limits: Limits
    pool: TextPool = field(init=False)
    texts: TokenTexts = field(init=False)
    stopping: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.pool = TextPool(self.pair.many(self.limits.texts), self.limits.queue)
        self.texts = TokenTexts(self.pair.tokenizer)

    @property
    def card(self) -> JsonObject:
        return {"id": self.name, "object": "model", "created": 0, "owned_by": "edgespec"}

    async def models(self, _: HttpRequest) -> Response:
        return JSONResponse({"object": "list", "data": [self.card]})

    async def model(self, http: HttpRequest) -> Response:
        name = http.path_params["name"]
        if name == self.name:
            return JSONResponse(self.card)
        missing = UsageError(f"there is no model {shortened(name)} here; there is: {self.name}")
        return JSONResponse(error_object(missing), status_code=404)

    async def metrics(self, _: HttpRequest) -> Response:
        return Response(metrics(self.pool), media_type=METRICS_TYPE)

    async def until_stopped(self) -> NoReturn:
        await self.stopping.wait()
        raise StoppingError("the server is stopping; start it again")


class _Completions:
    """The ASGI application of one route: chat completions or completions."""

    def __init__(
        self, served: _Served, read: Callable[[JsonObject], Request], is_chat: bool
    ) -> None:
        self._served = served
        self._read = read
        self._is_chat = is_chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = timed(send, self._served.limits.timeout)
        events = EventStream(send)
        try:
            http = HttpRequest(scope, receive)
            whole = await _first(self._respond(http, events), self._served.until_stopped())
            response: Response | None = None if whole is None else JSONResponse(whole)
        except ClientDisconnect:
            response = None if events.begun else Response(status_code=CLIENT_LEFT)
        except EdgespecError as error:
            response = None if events.begun else _refusal(error)
            if events.begun:  # too late for a status
                await events.event(error_object(error))
                await events.close()
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, http: HttpRequest, events: EventStream) -> JsonObject | None:
        """The answer as one object; None if it was sent as events."""
        self._served.pool.check()  # before the body takes memory
        request = self._read(await read_json(http, self._served.limits))
        return await _first(self._answer(request, events), _until_left(http))

    async def _answer(self, request: Request, events: EventStream) -> JsonObject | None:
        served, pool = self._served, self._served.pool
        calls = AnswerCalls(served.pair.tool_use.form) if request.may_call else None
        answer = Answer(served.name, self._is_chat, served.texts, calls)
        options: GenerationOptions = {**request.options, **served.drafting}
        async with pool.turn(), pool.text(request.prompt, options) as text:
            if request.streams:
                await _send_events(request, answer, text, events)
                return None
            async for _ in text:
                pass
            return answer.whole(text.result)


async def _send_events(
    request: Request, answer: Answer, text: ServedText, events: EventStream
) -> None:
    """Sends the chunks as they come. A request that cannot be answered fails before any event."""
    chunk = await anext(text, None)
    await events.event(answer.begin())
    while chunk is not None:
        piece = answer.piece(chunk)
        if piece is not None:
            await events.event(piece)
        chunk = await anext(text, None)
    await events.event(answer.end(text.result))
    if request.counts:
        await events.event(answer.counts(text.result))
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
    return JSONResponse(error_object(error), status_code=status, headers=headers)
