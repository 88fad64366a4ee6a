"""Several texts of one prompt as they grow, for a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from edgespec.pair.concurrent.async_batch import AsyncStream
from edgespec.pair.generation import Chunk

__all__ = ["interleaved"]

_Event = tuple[int, Chunk | BaseException | None]  # of a text's number; None is its end


async def interleaved(
    streams: Sequence[AsyncStream],
) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """The number of a text and its next `Chunk`, or None at its end, as they are made.

    Each text starts when a slot is free for it, one after the other, so that a request for many
    texts does not keep others waiting. All of them end with this iteration.

    Args:
        streams: have not started; at least one.
    """
    events: asyncio.Queue[_Event] = asyncio.Queue()
    reading: list[asyncio.Task[None]] = []

    async def read(number: int) -> None:
        try:
            async for chunk in streams[number]:
                events.put_nowait((number, chunk))
            events.put_nowait((number, None))
        except Exception as error:
            events.put_nowait((number, error))

    async def start_others() -> None:
        for number, stream in enumerate(streams[1:], start=1):
            try:
                await stream.start()
            except Exception as error:
                events.put_nowait((number, error))
                return
            reading.append(asyncio.create_task(read(number)))

    starting: asyncio.Task[None] | None = None
    try:
        await streams[0].start()
        reading.append(asyncio.create_task(read(0)))
        starting = asyncio.create_task(start_others())
        unended = len(streams)
        while unended:
            number, event = await events.get()
            if isinstance(event, BaseException):
                raise event
            unended -= event is None
            yield number, event
    finally:
        tasks = [starting, *reading] if starting else reading
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in streams:
            await stream.aclose()
