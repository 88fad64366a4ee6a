"""A route whose errors are answers: with a status before the answer has begun, else as an event."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgespec.errors import EdgespecError
from edgespec.openai.openai_errors import unexpected
from edgespec.server.cut_off import cut_off
from edgespec.server.http.event_stream import EventStream, Framing
from edgespec.server.request_record import RequestRecord, record_of
from edgespec.server.served import Served
from edgespec.server.statuses import StoppedError, error_object, refusal

__all__ = ["GuardedRoute", "while_waited_for"]

CLIENT_LEFT = 499  # nginx's status for a request whose client has left; nobody reads it

logger = logging.getLogger("edgespec.server")


class GuardedRoute(ABC):
    """The ASGI application of one route.

    Args:
        path: of the route.
        framing: of its streams.
    """

    def __init__(self, served: Served, path: str, framing: Framing) -> None:
        self._served = served
        self._path = path
        self._framing = framing

    @abstractmethod
    async def respond(
        self, http: HttpRequest, events: EventStream, record: RequestRecord
    ) -> Response | None:
        """The answer; None if it was sent as events.

        Raises:
            EdgespecError: there is none.
            ClientDisconnect: nobody waits for it.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = EventStream(send, self._framing)
        record = record_of(scope)
        try:
            http = HttpRequest(scope, receive)
            self._served.check()
            async with self._served.until_stopped():
                response = await self.respond(http, events, record)
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
        if not isinstance(error, EdgespecError):  # of this program; a client gets JSON all the same
            logger.error("a request failed", exc_info=error)
            error = unexpected(error)
        record.failed = events.started or isinstance(error, StoppedError)
        if not events.started:
            return refusal(self._path, error)
        with suppress(ClientDisconnect):
            await events.fail(error_object(self._path, error))
        return None


@asynccontextmanager
async def while_waited_for(http: HttpRequest) -> AsyncIterator[None]:
    """The block ends when the client closes the connection; the request's body must have been read.

    Raises:
        ClientDisconnect: it has.
    """
    async with cut_off() as block:

        async def watch() -> None:
            while (await http.receive())["type"] != "http.disconnect":
                pass
            block(ClientDisconnect())

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
