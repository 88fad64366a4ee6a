"""Work that must not hold up the event loop, nor the end of the process."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread, current_thread
from typing import TypeVar

__all__ = ["LAST_JOB_S", "DaemonThreads"]

T = TypeVar("T")

# The end of a process waits so long for a thread. Python ends daemons where they come back from a
# library in C++ or Rust; the library then aborts the whole process.
LAST_JOB_S = 2.0
KEPT_S = 10.0  # a thread waits so long for another job: to begin one costs more than to wake it


class DaemonThreads:
    """Runs jobs for coroutines, a few at once; a thread ends when none has come for some seconds.

    The threads of `asyncio.to_thread` would keep a process that was interrupted alive until their
    jobs end.

    Args:
        count: of jobs that run at once.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle = 0
        self._ending = False
        self._waiting: deque[Callable[[], object]] = deque()
        self._threads: set[Thread] = set()
        self._changed = Condition()

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

        thread = self._add(work)
        if thread is not None:
            thread.start()
        return await asyncio.wrap_future(future)

    def _add(self, work: Callable[[], object]) -> Thread | None:
        """Adds a job; the thread to begin for it, unless one is idle or no other may be."""
        with self._changed:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
                return None
            if len(self._threads) == self._count:
                return None
            if not self._threads:
                atexit.register(self._end)
            thread = Thread(target=self._work, name="edgespec requests", daemon=True)
            self._threads.add(thread)
            return thread

    def _end(self) -> None:
        """Ends the threads before the process ends."""
        last = time.monotonic() + LAST_JOB_S
        with self._changed:
            self._waiting.clear()
            self._ending = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, last - time.monotonic()))

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # what it holds must not live until the next one comes

    def _next(self) -> Callable[[], object] | None:
        """A job; None if the thread, which is not counted any more, has to end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._ending, KEPT_S)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads.discard(current_thread())
            if not self._threads:
                atexit.unregister(self._end)
            return None
