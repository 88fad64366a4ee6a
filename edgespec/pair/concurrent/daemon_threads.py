"""Work that must not hold up the event loop, nor the end of the process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

__all__ = ["DaemonThreads"]

T = TypeVar("T")


class DaemonThreads:
    """Runs jobs for coroutines, a few at once; a thread ends when no job waits.

    The threads of `asyncio.to_thread` would keep a process that was interrupted alive until their
    jobs end.

    Args:
        count: of jobs that run at once.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = Lock()

    async def run(self, job: Callable[[], T]) -> T:
        """The job's result. One whose task is cancelled before it begins does not begin."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            self._waiting.append(work)
            begins = self._free > 0
            self._free -= begins
        if begins:
            Thread(target=self._work, name="edgespec requests", daemon=True).start()
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    return
                work = self._waiting.popleft()
            work()
