"""The queue of requests for one pair, and the one thread that uses the pair.

Requests wait in the event loop, so they hold no thread. Everything that uses the pair, tokenizing
included, runs in one thread, one job after the other: a pair must not be used by two threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from edgespec.errors import EdgespecError

__all__ = ["PairQueue", "QueueFullError"]

T = TypeVar("T")
Job = Callable[[], None]


class QueueFullError(EdgespecError):
    """As many requests wait as may wait. Status 503."""


class PairQueue:
    """Requests use the pair in the order in which they came.

    Args:
        size: requests that may wait while another one uses the pair.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting = 0
        self._in_use = asyncio.Lock()
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        # A daemon: a call of the model cannot be interrupted, and must not delay the exit.
        Thread(target=_work, args=[self._jobs], name="pair", daemon=True).start()

    def check(self) -> None:
        """Raises QueueFullError if another request cannot wait."""
        if self._in_use.locked() and self._waiting >= self._size:
            raise QueueFullError(
                f"{self._waiting} requests are waiting, and the queue holds {self._size}; try "
                "again later, or start the server with a longer --queue"
            )

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until the pair is free, and holds it. A cancelled waiter leaves the queue.

        Raises:
            QueueFullError: at once.
        """
        self.check()
        self._waiting += 1
        try:
            await self._in_use.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._in_use.release()

    async def run(self, job: Callable[[], T]) -> T:
        """The job's result, computed in the pair's thread.

        If this is cancelled, a job that has begun still ends, and jobs added later wait for it.
        """
        return await asyncio.wrap_future(self.add(job))

    def add(self, job: Callable[[], T]) -> Future[T]:
        """Runs the job in the pair's thread, after those added earlier."""
        future: Future[T] = Future()
        self._jobs.put(partial(_complete, future, job))
        return future


def _work(jobs: SimpleQueue[Job]) -> None:
    while True:
        job = jobs.get()
        job()
        del job  # what it holds must not live until the next job comes


def _complete(future: Future[T], job: Callable[[], T]) -> None:
    """Runs a job, unless it was cancelled, and gives the future its result or error."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future, job  # an error's traceback holds this frame, and would hold them with it
