"""Who may use the server: requests that name it, with its key, and pages of allowed origins."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from secrets import compare_digest

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from edgespec.errors import UsageError, shortened
from edgespec.server.http.origins import Origins
from edgespec.server.statuses import refusal

__all__ = ["Access", "Hosts", "key_of_requests"]

OPEN = ("/", "/health", "/ready")  # need no key; the page asks for it
# A name, or an address of IPv6 in brackets, and perhaps a port.
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]]+)(?::\d*)?", re.ASCII)
KEY = re.compile("[!-~]+")  # what a header carries as it is


def key_of_requests(given: str | None) -> bytes | None:
    """The key that requests must bring; None for no key.

    Raises:
        UsageError: it is empty, which every request would match, or no request can bring it.
    """
    if given is None:
        return None
    if not given:
        raise UsageError("the API key is empty; give one, or leave --api-key out")
    if not KEY.fullmatch(given):
        raise UsageError("the API key has characters that no header carries; give ASCII, no spaces")
    return given.encode()


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
        refused = self._refusal(scope) if scope["type"] == "http" else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        given = Headers(scope=scope).get("host", "")
        found = HOST.fullmatch(given.lower())
        if found and found[1] in self._names:
            return None
        error = UsageError(
            f"this server is not called {shortened(given)}; use {' or '.join(self._names)}, or "
            "start it with --host NAME, or with --host 0.0.0.0 for every name"
        )
        return refusal(scope["path"], error)


class Access:
    """Refuses requests from pages of other origins, and those without the key.

    A browser names the origin of a page with its request; other programs send none.

    Args:
        api_key: what requests must bring as "Authorization: Bearer …", or as "x-api-key"; None for
            no key.
        origins: of pages that may ask.
        own_hosts: names that a page of this server itself may have asked.
    """

    def __init__(
        self,
        app: ASGIApp,
        api_key: str | None,
        origins: Origins,
        own_hosts: Collection[str] = (),
    ) -> None:
        self._app = app
        self._key = key_of_requests(api_key)
        self._origins = origins
        self._own_hosts = own_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope) if scope["type"] == "http" else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and not self._may_ask(origin, headers):
            error = UsageError(
                f"pages of {shortened(origin)} may not use this server; start it with "
                "--allow-origin if they should"
            )
            return refusal(scope["path"], error, 403)
        if scope["path"] in OPEN or self._has_key(headers):
            return None
        error = UsageError("the API key is missing or wrong; send it as Authorization: Bearer KEY")
        return refusal(scope["path"], error, 401, {"WWW-Authenticate": "Bearer"})

    def _may_ask(self, origin: str, headers: Headers) -> bool:
        """A page of this server may, if nobody else can have given it that name: a local one, that
        of --host, or an address."""
        host = headers.get("host", "").lower()
        found = HOST.fullmatch(host)
        is_own = origin.lower() in (f"http://{host}", f"https://{host}")
        known = found is not None and (found[1] in self._own_hosts or _is_address(found[1]))
        return self._origins.allow(origin) or (is_own and known)

    def _has_key(self, headers: Headers) -> bool:
        if self._key is None:
            return True
        given = headers.get("authorization", "").encode()
        own = headers.get("x-api-key", "").encode()  # as Anthropic's clients send it
        return compare_digest(given, b"Bearer " + self._key) or compare_digest(own, self._key)


def _is_address(host: str) -> bool:
    """Whether a host is an address, which no other machine's name can become."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
