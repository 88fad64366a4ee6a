"""Runs the application in uvicorn until it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from types import FrameType

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgespec.errors import UsageError
from edgespec.openai.json_value import json_line
from edgespec.openai.openai_errors import openai_error
from edgespec.server.limits import Limits

__all__ = ["serve", "server_config"]

FAREWELL = 2  # seconds; every request ends at once when the server stops, so none should need them

logger = logging.getLogger("edgespec.server")


def serve(
    application: Starlette, at: socket.socket, limits: Limits | None = None, grace: float = 0.0
) -> None:
    """Serves at this socket until it is told to end.

    SIGTERM: no other request is taken, and those that run have `grace` seconds to end. Ctrl-C, or a
    second signal: all end at once.

    Raises:
        KeyboardInterrupt: it was Ctrl-C.
    """
    config = server_config(application, limits or Limits())
    server = _Server(config, application, grace)
    server.run(sockets=[at])
    if server.interrupted:
        raise KeyboardInterrupt


def server_config(application: ASGIApp, limits: Limits) -> uvicorn.Config:
    """How uvicorn runs an application: HTTP alone, with limits in time, and its log as it is."""
    return uvicorn.Config(
        application,
        http=_TimedConnection,
        ws="none",
        # Each costs time in every request, and the server has a log of its own.
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_config=None,
        log_level="warning",
        lifespan="off",
        timeout_keep_alive=limits.timeout,  # type: ignore[arg-type]
        timeout_graceful_shutdown=FAREWELL,
    )


class _Server(uvicorn.Server):
    """A server that ends the requests in flight when it stops, after a time of grace.

    Attributes:
        interrupted: by Ctrl-C.
    """

    def __init__(self, config: uvicorn.Config, application: Starlette, grace: float) -> None:
        super().__init__(config)
        self._state = application.state
        self._grace = grace
        self._loop: asyncio.AbstractEventLoop | None = None
        self.interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first SIGTERM begins the time of grace, anything else ends it. Signals are not raised
        again afterwards, as uvicorn would: a server that was told to end has not failed."""
        self.interrupted |= sig == signal.SIGINT
        if sig != signal.SIGTERM or self.should_exit:
            self._grace = 0
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._state.stopping.set)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.draining.set()
        running = len(self.server_state.tasks)
        if running and self._grace:
            logger.info("stopping in %g s at most; requests that run: %d", self._grace, running)
        self.config.timeout_graceful_shutdown = self._grace + FAREWELL  # type: ignore[assignment]
        ending = asyncio.create_task(self._end_requests())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_requests(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._state.stopping.wait()
        self._state.stopping.set()
        await asyncio.sleep(FAREWELL / 2)
        for connection in self.server_state.connections:  # its client does not take its answer
            connection.transport.abort()


class _TimedConnection(H11Protocol):
    """An HTTP connection that closes if the next request header does not arrive in time, or if the
    client accepts nothing of an answer for as long.

    uvicorn's own limit ends with the first byte of a header, and does not hold for a connection
    that has had no request yet.
    """

    _deadline: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None  # while the client is slower than the answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does so only for sockets whose protocol number is set, which those of
        # socket.create_server lack: the body would wait 40 ms for the header's acknowledgement.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_header()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP. Where the request has been answered already, its body cannot be
        answered again."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            error = UsageError("this is no HTTP request that can be read; send HTTP/1.1")
            body = json_line(openai_error(error, 400))
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            parts = (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            for part in parts:
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_writing()

    def resume_writing(self) -> None:
        self._cancel_writing()
        super().resume_writing()

    def _await_writing(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._writing = self.loop.call_later(self.timeout_keep_alive, self._abort_if_stuck, unsent)

    def _abort_if_stuck(self, unsent: int) -> None:
        """Such a client would hold the pair for as long as it likes."""
        if self.transport.get_write_buffer_size() < unsent:
            self._await_writing()
        else:
            self.transport.abort()

    def _cancel_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

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
