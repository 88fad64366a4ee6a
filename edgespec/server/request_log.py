"""A line of the log for each request, and its place in /metrics; around the whole application."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgespec.errors import shortened
from edgespec.openai.openai_errors import unexpected
from edgespec.server.request_record import KEY, RequestRecord
from edgespec.server.statuses import refusal

__all__ = ["QUIET", "RequestLog"]

# Asked every few seconds by what watches the server: their lines are of level DEBUG.
QUIET = ("/health", "/ready", "/metrics")

logger = logging.getLogger("edgespec.server")


class RequestLog:
    """Keeps a record of each request, and answers an error of the program with JSON.

    Args:
        observe: is told each record at its end.
    """

    def __init__(self, app: ASGIApp, observe: Callable[[RequestRecord], None]) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Escaped: a path may hold the end of a line.
        record = RequestRecord(scope["method"], shortened(scope["path"], 120)[1:-1])
        scope[KEY] = record

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            logger.exception("a request failed")
            if record.status:
                record.failed = True
                raise
            await refusal(scope["path"], unexpected(error))(scope, receive, watched)
        finally:
            record.end()
            self._observe(record)
            level = logging.ERROR if record.outcome == "failed" else logging.INFO
            level = logging.DEBUG if scope["path"] in QUIET else level
            logger.log(level, "%s", record, extra={"fields": record.fields()})
