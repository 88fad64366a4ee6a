"""Claim: a process ends when its threads are out of the libraries that they call, or soon.

Python ends a daemon thread where it comes back from a library in C++ or Rust, which then aborts
the process: a server that was interrupted while it computed ended with SIGABRT now and then.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from depth import one_in

BEGINNING = """
import asyncio, sys, threading, time
from edgespec.pair.concurrent import batch_thread, daemon_threads

begun = threading.Event()

def job():
    begun.set()
    time.sleep({seconds})
    print("ended", flush=True)

def begin_others():
    async def run():
        task = asyncio.ensure_future(daemon_threads.DaemonThreads(1).run(job))
        while not begun.is_set():
            await asyncio.sleep(0.01)
    asyncio.run(run())

def begin_texts():
    batch_thread.BatchThread(batch=None).run(job)
    begun.wait()
"""


def ended(begin: str, seconds: float, last_job_s: float) -> subprocess.CompletedProcess:
    """A process that ends while a thread does a job of so many seconds."""
    code = BEGINNING.format(seconds=seconds)
    code += f"batch_thread.LAST_JOB_S = daemon_threads.LAST_JOB_S = {last_job_s}\n{begin}()\n"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@one_in(2)
@pytest.mark.parametrize("begin", ["begin_texts", "begin_others"])
def test_a_job_is_waited_for(begin):
    done = ended(begin, seconds=0.2, last_job_s=250)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


@one_in(2, turn=1)
@pytest.mark.parametrize("begin", ["begin_texts", "begin_others"])
def test_a_long_job_does_not_keep_the_process(begin):
    done = ended(begin, seconds=3000, last_job_s=0.1)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
