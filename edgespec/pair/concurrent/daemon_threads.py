"""Work that must not hold up the event loop, nor the end of the process."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread, current_thread
from typing import TypeVar

__all__ = ["LAST_JOB_S", "DaemonThreads"]

T = TypeVar("T")

# The end of a process waits so long for a thread. Python ends daemons where they come back from a
# library in C++ or Rust; the library then aborts the whole process.
LAST_JOB_S = 2.0


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
        self._threads: set[Thread] = set()
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
            self._begin()
        return await asyncio.wrap_future(future)

    def _begin(self) -> None:
        thread = Thread(target=self._work, name="edgespec requests", daemon=True)
        with self._lock:
            if not self._threads:
                atexit.register(self._end)
            self._threads.add(thread)
        thread.start()

    def _end(self) -> None:
        """Ends the threads before the process ends."""
        last = time.monotonic() + LAST_JOB_S
        with self._lock:
            self._waiting.clear()
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, last - time.monotonic()))

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    self._threads.discard(current_thread())
                    if not self._threads:
                        atexit.unregister(self._end)
                    return
                work = self._waiting.popleft()
            work()
