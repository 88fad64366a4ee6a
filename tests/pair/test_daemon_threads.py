"""Claim: jobs of coroutines have threads that wait for the next one, never more than said."""

from __future__ import annotations

import asyncio
import time
from threading import Lock, current_thread

import pytest

from edgespec.pair.concurrent import daemon_threads
from edgespec.pair.concurrent.daemon_threads import DaemonThreads

MOST = 3


class Jobs:
    """Counts jobs that run at once, and the threads that they ran in."""

    def __init__(self) -> None:
        self._lock, self._now, self.most, self.threads = Lock(), 0, 0, set()

    def __call__(self, number: int) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.threads.add(current_thread())
        time.sleep(0.001 * (number % 4))
        with self._lock:
            self._now -= 1
        return number


# So short that threads end while jobs come, or so long that none ends.
@pytest.mark.parametrize("kept", [0.0005, 60.0])
def test_every_job_is_done_by_few_threads(monkeypatch, kept):
    monkeypatch.setattr(daemon_threads, "KEPT_S", kept)
    threads, jobs = DaemonThreads(MOST), Jobs()

    async def run():
        for pause in range(12):
            asked = (threads.run(lambda number=number: jobs(number)) for number in range(20))
            assert await asyncio.wait_for(asyncio.gather(*asked), 60) == list(range(20))
            await asyncio.sleep(0.0005 * (pause % 3))

    asyncio.run(run())
    assert jobs.most <= MOST
    if kept > 1:
        assert len(jobs.threads) <= MOST
    threads._end()
    assert threads._threads == set()


def test_a_job_s_error_is_that_of_its_coroutine():
    threads = DaemonThreads(1)

    async def run():
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)
        assert await threads.run(lambda: 5) == 5

    asyncio.run(run())
    threads._end()
