"""Who may use the server: requests that name it, with its key, and pages of allowed origins."""

from __future__ import annotations

import re
from collections.abc import Collection
from secrets import compare_digest

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from edgespec.errors import UsageError, shortened
from edgespec.openai.openai_api import error_object
from edgespec.server.json_response import JsonResponse
from edgespec.server.origins import Origins

__all__ = ["Access", "Hosts"]

OPEN = ("/health",)  # needs no key
# A name, or an address of IPv6 in brackets, and perhaps a port.
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]]+)(?::\d*)?", re.ASCII)


class Hosts:
    """Refuses requests to other host names than the server's.

    A web page can reach a local server by a name of its own (DNS rebinding); its browser then takes
    the server for the page's own, and names no origin.

    Args:
        names: of this server, as URLs have them, in small letters.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JsonResponse | None:
        given = Headers(scope=scope).get("host", "")
        found = HOST.fullmatch(given.lower())
        if found and found[1] in self._names:
            return None
        error = UsageError(
            f"this server is not called {shortened(given)}; use {' or '.join(self._names)}, or "
            "start it with --host NAME, or with --host 0.0.0.0 for every name"
        )
        return JsonResponse(error_object(error), status_code=400)


class Access:
    """Refuses requests from pages of other origins, and those without the key.

    A browser names the origin of a page with its request; other programs send none.

    Args:
        api_key: what requests must bring as "Authorization: Bearer …"; None for no key.
        origins: of pages that may ask.
    """

    def __init__(self, app: ASGIApp, api_key: str | None, origins: Origins) -> None:
        self._app = app
        self._expected = None if api_key is None else f"Bearer {api_key}".encode()
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JsonResponse | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and not self._origins.allow(origin):
            error = UsageError(
                f"pages of {shortened(origin)} may not use this server; start it with "
                "--allow-origin if they should"
            )
            return JsonResponse(error_object(error), status_code=403)
        given = headers.get("authorization", "").encode()
        if self._expected is None or scope["path"] in OPEN or compare_digest(given, self._expected):
            return None
        error = UsageError("the API key is missing or wrong; send it as Authorization: Bearer KEY")
        bearer = {"WWW-Authenticate": "Bearer"}
        return JsonResponse(error_object(error), status_code=401, headers=bearer)
