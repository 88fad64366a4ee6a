"""What a server answers while its pairs are loaded: that it lives, and is not ready."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgespec.server.http.http_server import server_config
from edgespec.server.http.json_response import JsonResponse
from edgespec.server.limits import Limits
from edgespec.server.request_log import RequestLog
from edgespec.server.statuses import LoadingError, refusal

__all__ = ["answering_while_loading"]

SECONDS_TO_ASK = 5.0  # after a connection
# The same when the pairs are loaded, for those who have just connected.
SECONDS_AT_THE_END = 1.0
CLOSE = {"connection": "close"}  # the next request of a client is for the loaded server


@contextmanager
def answering_while_loading(at: socket.socket) -> Iterator[None]:
    """Answers at this socket while the block runs: /health with 200, all else with 503. Clients
    that connect afterwards wait for whoever serves at the socket next."""
    logged = RequestLog(_application, observe=lambda record: None)
    server = _Loading(server_config(logged, Limits(timeout=SECONDS_TO_ASK)))
    thread = threading.Thread(target=server.run, args=([at.dup()],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/health":
        response: Response = JsonResponse({"status": "ok"}, headers=CLOSE)
    else:
        error = LoadingError("the models are being loaded; ask again in a moment")
        response = refusal(scope["path"], error, headers=CLOSE)
    await response(scope, receive, send)


class _Loading(uvicorn.Server):
    """Ends without cutting off those who have just connected."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_AT_THE_END):
                while self.server_state.connections:
                    await asyncio.sleep(0.01)
        await super().shutdown(sockets)
