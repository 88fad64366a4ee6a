"""A block of a coroutine that something outside it may end, without a task for either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["CutOff", "cut_off"]


class CutOff:
    """Ends a block early."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._is_open = True
        self.error: Exception | None = None

    def __call__(self, error: Exception) -> None:
        """Ends the block with this error, where it waits; nothing if it has ended."""
        if self._is_open:
            self._is_open = False
            self.error = error
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """The block has ended."""
        self._is_open = False


@asynccontextmanager
async def cut_off() -> AsyncIterator[CutOff]:
    """The block; gives what ends it.

    Raises:
        Exception: that it was ended with.
    """
    timeout = asyncio.timeout(None)
    cut = CutOff(timeout)
    try:
        async with timeout:
            try:
                yield cut
            finally:
                cut.close()
    except TimeoutError:
        if cut.error is None or not timeout.expired():
            raise
        raise cut.error from None
