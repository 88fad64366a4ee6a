"""Runs the application in uvicorn until it is interrupted."""

from __future__ import annotations

import asyncio
import socket

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgespec.server.limits import Limits

__all__ = ["serve"]

FAREWELL = 2  # seconds; every request ends at once when the server stops, so none should need them


def serve(application: Starlette, at: socket.socket, limits: Limits | None = None) -> None:
    """Serves at this socket until Ctrl-C.

    Raises:
        KeyboardInterrupt: always, when the server has stopped.
    """
    config = uvicorn.Config(
        application,
        http=_TimedConnection,
        ws="none",
        log_level="warning",
        lifespan="off",
        timeout_keep_alive=(limits or Limits()).timeout,  # type: ignore[arg-type]
        timeout_graceful_shutdown=FAREWELL,
    )
    _Server(config, application.state.stopping).run(sockets=[at])
    raise KeyboardInterrupt  # uvicorn raises the signal again, but not in every case


class _Server(uvicorn.Server):
    """A server that ends the requests in flight when it stops, instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


class _TimedConnection(H11Protocol):
    """An HTTP connection that closes if the next request header does not arrive in time.

    uvicorn's own limit ends with the first byte of a header, and does not hold for a connection
    that has had no request yet.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_header()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP. Where the request has been answered already, its body cannot be
        answered again."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def _await_header(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _close_if_idle(self) -> None:
        """Also if a body still arrives whose request has been answered already."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
