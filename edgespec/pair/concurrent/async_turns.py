"""Texts of a pair for coroutines, one at a time: they wait for their turn in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

from edgespec.pair.concurrent.async_batch import AsyncStream
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.generation import Chunk, Generation, Stream

__all__ = ["AsyncTurns"]


class AsyncTurns:
    """Makes the texts of one pair for coroutines, in the order in which they were asked for.

    One thread computes, so the event loop goes on. A text whose task is cancelled while it waits
    never begins; one that is left before its end ends when it is closed, at the end of an
    `async with` block, or when nothing refers to it any more.
    """

    def __init__(self) -> None:
        self._thread = DaemonThreads(1)
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def stream(self, start: Callable[[], Stream]) -> AsyncStream:
        """The text of the stream that `start` makes, when it is its turn."""
        results: list[Generation] = []
        return AsyncStream.of(self._chunks(start, results), results)

    async def generate(self, start: Callable[[], Stream]) -> Generation:
        """The same to its end."""
        async with self.stream(start) as stream:
            async for _ in stream:
                pass
            return stream.result

    async def _chunks(
        self, start: Callable[[], Stream], results: list[Generation]
    ) -> AsyncGenerator[Chunk | None, None]:
        """None when the text has its turn and its result is in `results`, then its chunks."""
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            stream = await self._thread.run(start)
            try:
                results.append(stream.result)
                yield None
                while chunks := await self._thread.run(stream.ready):
                    for chunk in chunks:
                        yield chunk
            finally:
                await self._thread.run(stream.close)
