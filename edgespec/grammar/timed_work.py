"""Calls of llguidance that are given up when they take too long: nothing can stop them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from edgespec.errors import UsageError

__all__ = ["LONGEST_S", "SlowMatcherError", "TimedWork"]

T = TypeVar("T")

LONGEST_S = 2.0  # of processor time for one call
WAITED_S = 10 * LONGEST_S  # by the clock, on a busy machine
MOST_GIVEN_UP = 1  # that still run: each keeps a core


class SlowMatcherError(UsageError):
    """A grammar needs more time at some place than a matcher may take."""


class TimedWork:
    """Does work in another thread, and leaves it there when it takes too long.

    llguidance bounds its lexer, and the size of a row of its parser, but not the work for a row. An
    ambiguous Lark grammar of 1 000 characters takes minutes for one.
    """

    def __init__(self) -> None:
        self._given_up: list[threading.Thread] = []

    def check(self) -> None:
        """Raises SlowMatcherError while work that was given up still runs: it would become more."""
        self._given_up = [thread for thread in self._given_up if thread.is_alive()]
        if len(self._given_up) >= MOST_GIVEN_UP:
            raise SlowMatcherError(
                "an earlier Lark grammar still takes a core to find out what its text may go on "
                "with; give none until it has ended, or start anew"
            )

    def __call__(self, what: str, work: Callable[[], T]) -> T:
        """The work's result. What it raises is raised here.

        Args:
            what: is done, for the error.

        Raises:
            SlowMatcherError: it takes too long. What it works on is its own from now on.
        """
        done: _Work[T] = _Work(work)
        done.start()
        start = time.monotonic()
        while not done.ended.wait(LONGEST_S / 4):
            if done.seconds() > LONGEST_S or time.monotonic() - start > WAITED_S:
                self._given_up.append(done)
                raise SlowMatcherError(
                    f"the {what} is too ambiguous: its matcher takes more than {LONGEST_S:g} s for "
                    "one token; let each text be read in few ways only"
                )
        return done.result()


class _Work(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.ended = threading.Event()
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # raised where it is waited for
            self._error = error
        self.ended.set()

    def seconds(self) -> float:
        """Processor time so far; where that is not known, none."""
        clock = getattr(time, "pthread_getcpuclockid", None)
        if clock is None or self.ident is None or not self.is_alive():
            return 0.0
        return time.clock_gettime(clock(self.ident))

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]
