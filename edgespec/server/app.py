"""A pair behind HTTP, for programs that speak to OpenAI's servers; extra `edgespec[server]`.

One text at a time: a pair keeps one, so requests wait for each other in the order they came.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from itertools import chain
from threading import Lock
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.generation import Chunk, Generation
from edgespec.pair.pair import Pair
from edgespec.server.openai_api import Answer, Request, chat_request, text_request

__all__ = ["in_url", "listening", "serve", "server"]

FAREWELL = 2  # seconds, for texts that are not finished when it is interrupted
GONE = 499  # who asked has left; nobody reads it
LOCAL = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::")


def server(
    pair: Pair, name: str, drafting: Mapping[str, Any], host: str = "127.0.0.1"
) -> Starlette:
    """The application.

    Args:
        name: of the model, in answers.
        drafting: options of `Pair.stream` that no request decides: draft, gamma, rule.
        host: where it listens. Requests must call it by this name, or a local one: a page in a
            browser reaches a local server by any name that leads there, and is kept out by this.
    """
    served = _Served(pair, name, drafting)
    routes = [
        Route("/v1/models", served.models),
        Route("/v1/models/{name:path}", served.model),
        Route("/v1/chat/completions", served.chat, methods=["POST"]),
        Route("/v1/completions", served.text, methods=["POST"]),
        Route("/health", lambda _: JSONResponse({"status": "ok"})),
    ]
    hosts = ["*"] if host in EVERYWHERE else [*LOCAL, in_url(host)]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    return Starlette(routes=routes, middleware=[trusted])


def in_url(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def listening(host: str, port: int) -> socket.socket:
    """A socket at this address.

    Raises:
        UsageError: it is taken, not ours, or none.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen at {host} port {port}: {reason}; give another") from None


def serve(application: Starlette, at: socket.socket) -> None:
    """Until it is interrupted, which is then raised, as by the keyboard."""
    config = uvicorn.Config(
        application, log_level="warning", lifespan="off", timeout_graceful_shutdown=FAREWELL
    )
    uvicorn.Server(config).run(sockets=[at])
    raise KeyboardInterrupt  # uvicorn hands the signal on itself, but seldom too late to be heard


class _Served:
    """What the routes share."""

    def __init__(self, pair: Pair, name: str, drafting: Mapping[str, Any]) -> None:
        self._pair = pair
        self._name = name
        self._model = {"id": name, "object": "model", "created": 0, "owned_by": "edgespec"}
        self._drafting = drafting
        self._free = Lock()

    async def models(self, _: HttpRequest) -> Response:
        return JSONResponse({"object": "list", "data": [self._model]})

    async def model(self, http: HttpRequest) -> Response:
        asked = http.path_params["name"]
        if asked != self._name:
            missing = UsageError(f"there is no model {asked!r:.80} here; there is: {self._name}")
            return JSONResponse(_error(missing), status_code=404)
        return JSONResponse(self._model)

    async def chat(self, http: HttpRequest) -> Response:
        return await self._answered(http, chat_request, chats=True)

    async def text(self, http: HttpRequest) -> Response:
        return await self._answered(http, text_request, chats=False)

    async def _answered(
        self, http: HttpRequest, read: Callable[[Mapping[str, Any]], Request], *, chats: bool
    ) -> Response:
        try:
            request = read(await _body(http))
            answer = Answer(self._name, chats)
            if not request.streams:
                return await self._whole(http, request, answer)
            events = self._events(request, answer)
            first = await run_in_threadpool(next, events)  # what cannot be answered is no stream
        except EdgespecError as error:
            status = 400 if isinstance(error, UsageError) else 500
            return JSONResponse(_error(error), status_code=status)
        return _Events(first, events)

    async def _whole(self, http: HttpRequest, request: Request, answer: Answer) -> Response:
        with closing(self._running(request)) as running:
            async for chunk, result in iterate_in_threadpool(running):
                if chunk is None:
                    return JSONResponse(answer.whole(result))
                if await http.is_disconnected():
                    break
        return Response(status_code=GONE)

    def _events(self, request: Request, answer: Answer) -> Generator[str]:
        """Server-sent events."""
        with closing(self._running(request)) as running:
            chunk, result = next(running)
            yield _event(answer.begin())
            try:
                while chunk is not None:
                    if chunk.text:  # of many tokens none is settled yet
                        yield _event(answer.piece(chunk.text))
                    chunk, result = next(running)
            except EdgespecError as error:
                yield _event(_error(error))
                return
            yield _event(answer.end(result))
            if request.counts:
                yield _event(answer.counts(result))
            yield "data: [DONE]\n\n"

    def _running(self, request: Request) -> Generator[tuple[Chunk | None, Generation]]:
        """Each chunk with the text so far, and behind the last one None.

        It holds the pair until it ends, or is closed because nobody listens any more.
        """
        with self._free:
            stream = self._pair.stream(request.given, **request.options, **self._drafting)
            for chunk in stream:
                yield chunk, stream.result
            yield None, stream.result


class _Events(StreamingResponse):
    """Events that are closed when their reader has left, too: they hold the pair until then."""

    def __init__(self, first: str, events: Generator[str]) -> None:
        super().__init__(chain([first], events), media_type="text/event-stream")
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with closing(self._events):
            await super().__call__(scope, receive, send)


async def _body(http: HttpRequest) -> Mapping[str, Any]:
    """A page in a browser can send anything but this type without asking first."""
    if http.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("the request is no JSON; give Content-Type: application/json")
    try:
        body = json.loads(await http.body())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is no JSON ({error!s:.80})") from None
    if not isinstance(body, Mapping):
        raise UsageError(f"the request is {body!r:.80}; give an object")
    return body


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _error(error: EdgespecError) -> dict[str, Any]:
    kind = "invalid_request_error" if isinstance(error, UsageError) else "server_error"
    return {"error": {"message": str(error), "type": kind, "param": None, "code": None}}
