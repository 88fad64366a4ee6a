"""The application: its routes, and what is around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from edgespec.errors import EdgespecError, shortened
from edgespec.openai.openai_errors import UnknownUrlError
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.server.http.access import Access, Hosts
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.http.listening import EVERYWHERE, LOCAL, in_url
from edgespec.server.http.origins import Origins
from edgespec.server.limits import Limits
from edgespec.server.metrics import METRICS_TYPE, metrics
from edgespec.server.model_routes import ModelRoutes
from edgespec.server.request_log import RequestLog
from edgespec.server.served import Served
from edgespec.server.speech_route import SPEECH_PATHS, SpeechRoute
from edgespec.server.statuses import refusal
from edgespec.server.text_apis import TEXT_APIS
from edgespec.server.text_route import TextRoute

__all__ = ["application"]

PAGE = Path(__file__).with_name("page.html")
# The page holds all its parts, and asks this server only.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
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
    """The ASGI application; its `state.stopping` is an event that ends every request, and
    `state.draining` one that lets those end that run.

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
    known = [*(api.path for api in TEXT_APIS), *SPEECH_PATHS, "/v1/models"]
    served = Served(pairs, drafting, limits or Limits(), strict, known)
    routes = [
        *(Route(api.path, TextRoute(served, api), methods=["POST"]) for api in TEXT_APIS),
        *(Route(path, SpeechRoute(served, path), methods=["POST"]) for path in SPEECH_PATHS),
        *ModelRoutes(served).routes(),
        *_own_routes(served),
    ]
    names = dict.fromkeys([*LOCAL, in_url(host).lower()])
    hosts = [] if host in EVERYWHERE else [Middleware(Hosts, names=list(names))]
    allowed = Origins(origins)
    access = Middleware(Access, api_key=api_key, origins=allowed, own_hosts=list(names))
    browsers = Middleware(
        CORSMiddleware,
        allow_origin_regex=allowed.expression,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
    )
    middleware = [
        Middleware(RequestLog, observe=served.observations.add),
        *hosts,
        *([browsers] if allowed else []),
        access,
    ]
    no_route = {404: _no_route, 405: _no_route}
    starlette = Starlette(routes=routes, middleware=middleware, exception_handlers=no_route)
    starlette.state.stopping = served.stopping
    starlette.state.draining = served.draining
    return starlette


def _own_routes(served: Served) -> list[Route]:
    """The page, and what watches the server."""
    page = PAGE.read_bytes()

    async def index(_: HttpRequest) -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def health(_: HttpRequest) -> Response:
        return JsonResponse({"status": "ok"})

    async def ready(http: HttpRequest) -> Response:
        try:
            served.check()
            served.by_name.check()
        except EdgespecError as error:
            return refusal(http.url.path, error, 503)
        return JsonResponse({"status": "ready"})

    async def counts(_: HttpRequest) -> Response:
        text = metrics(served.by_name.all, served.observations.registry)
        return Response(text, media_type=METRICS_TYPE)

    routes: dict[str, Callable[[HttpRequest], Awaitable[Response]]] = {
        "/": index,
        "/health": health,
        "/ready": ready,
        "/metrics": counts,
    }
    return [Route(path, answer) for path, answer in routes.items()]


async def _no_route(http: HttpRequest, error: Exception) -> Response:
    """JSON also for what is not here, such as embeddings."""
    assert isinstance(error, HTTPException)
    path, method = shortened(http.url.path)[1:-1], shortened(http.method)[1:-1]
    if allowed := (error.headers or {}).get("Allow"):  # the path is here, the method is not
        message = f"{path} takes {' and '.join(allowed.split(', '))}, not {method}"
    else:
        message = (
            f"{method} {path} is not there; this server has POST "
            f"{', '.join(api.path for api in TEXT_APIS)} and GET /v1/models"
        )
    refused = UnknownUrlError(message)
    return refusal(http.url.path, refused, error.status_code, error.headers)
