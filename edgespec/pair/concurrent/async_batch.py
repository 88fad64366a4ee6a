"""Concurrent texts of one pair for coroutines, which wait while one thread computes for all of
them.

Texts that wait for a slot wait in the event loop, so they hold no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack

from edgespec.errors import UsageError
from edgespec.pair.concurrent.batch_thread import BatchThread, Event
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.concurrent.in_order import InOrder
from edgespec.pair.concurrent.seeds import check_n, each, seeded
from edgespec.pair.generation import Chunk, Generation
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import Prompt, PromptInput

if TYPE_CHECKING:
    from edgespec.pair.concurrent.batch import Batch

__all__ = ["AsyncBatch", "AsyncStream", "interleaved"]

ENCODERS = 4  # prompts that are encoded at once


class AsyncBatch:
    """Texts of one pair that coroutines of one event loop make concurrently; `Pair.amany` makes it.

    Texts begin in the order in which they were asked for, and share the calls of the models. A text
    whose task is cancelled, or which is closed, ends and leaves its slot to another one.

    Args:
        batch: of the pair, which nobody else may use.

    Attributes:
        batch: whose calls the texts share.
        thread: computes.
        running, waiting: texts that are being made, and that wait for a slot.
        slots: as many as there are caches.
        encoders: make token ids of prompts, so that a long one does not hold up the texts.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.thread = BatchThread(batch)
        self.running = self.waiting = 0
        self.slots = asyncio.Semaphore(batch.capacity)
        self.encoders = DaemonThreads(ENCODERS)

    @property
    def started(self) -> int:
        """Texts so far."""
        return self.thread.started

    @property
    def tokens(self) -> int:
        """Tokens emitted so far."""
        return self.thread.tokens

    @property
    def is_full(self) -> bool:
        """Whether another text has to wait."""
        return self.slots.locked()

    def stream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> AsyncStream:
        """A text as it grows; the options are those of `Pair.stream`, and so are the errors, which
        come with the first chunk."""
        return AsyncStream(self, _PromptOnce(self, prompt, options), options)

    def sample_streams(
        self, prompt: PromptInput, n: int, **options: Unpack[GenerationOptions]
    ) -> list[AsyncStream]:
        """Several texts of one prompt, which `interleaved` starts one after the other. With a seed,
        text number i is drawn with seed + i.

        Raises:
            UsageError: n is below 1.
        """
        check_n(n)
        once = _PromptOnce(self, prompt, options)
        return [AsyncStream(self, once, seeded(options, number)) for number in range(n)]

    def samples(
        self, prompt: PromptInput, n: int, **options: Unpack[GenerationOptions]
    ) -> AsyncGenerator[tuple[int, Chunk | None], None]:
        """Several texts of one prompt as they grow: the number of a text and its next `Chunk`, or
        None at its end. With a seed, text number i is drawn with seed + i.

        Raises:
            UsageError: n is below 1.
        """
        return interleaved(self.sample_streams(prompt, n, **options))

    async def generate(
        self, prompt: PromptInput, **options: Unpack[GenerationOptions]
    ) -> Generation:
        """A text to its end."""
        async with self.stream(prompt, **options) as stream:
            async for _ in stream:
                pass
            return stream.result

    async def results(
        self, prompts: Iterable[PromptInput], *, n: int = 1, **options: Unpack[GenerationOptions]
    ) -> AsyncIterator[tuple[int, Generation]]:
        """Makes `n` texts for each prompt and yields each with its number as it ends; see
        `Batch.results`. Prompts are taken one by one as texts end."""
        numbered = enumerate(each(prompts, n))
        running: dict[asyncio.Task[Generation], int] = {}
        try:
            while True:
                while len(running) < self.batch.capacity and (one := next(numbered, None)):
                    number, prompt = one
                    own = seeded(options, number)
                    running[asyncio.create_task(self.generate(prompt, **own))] = number
                if not running:
                    return
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    yield running.pop(task), task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def in_order(
        self, prompts: Iterable[PromptInput], *, n: int = 1, **options: Unpack[GenerationOptions]
    ) -> AsyncIterator[Generation]:
        """`results` in the order of the prompts, without their numbers."""
        ordered = InOrder[Generation]()
        async for number, result in self.results(prompts, n=n, **options):
            for following in ordered.add(number, result):
                yield following

    async def aclose(self) -> None:
        """Ends all texts, and the thread."""
        await asyncio.wrap_future(self.thread.stop())

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _PromptOnce:
    """A prompt of one or several texts, which the first of them encodes."""

    def __init__(self, batch: AsyncBatch, prompt: PromptInput, options: GenerationOptions) -> None:
        self._batch = batch
        self._encode = partial(batch.batch.encoded, prompt, options)
        self._encoded = prompt if isinstance(prompt, Prompt) else None

    async def tokens(self) -> Prompt:
        """Raises UsageError as `Pair.stream`."""
        if self._encoded is None:
            self._encoded = await self._batch.encoders.run(self._encode)
        return self._encoded


class AsyncStream:
    """Iterates over the `Chunk`s of a text as it grows; the twin of `Stream` for coroutines.

    The text starts with the first chunk that is asked for, as soon as a slot is free. Left before
    its end, it ends when it is closed, at the end of an `async with` block, when its task is
    cancelled, or when nothing refers to it any more.
    """

    def __init__(self, batch: AsyncBatch, prompt: _PromptOnce, options: GenerationOptions) -> None:
        self._results: list[Generation] = []
        self._chunks = _chunks(batch, prompt, options, self._results)

    @classmethod
    def of(
        cls, chunks: AsyncGenerator[Chunk | None, None], results: list[Generation]
    ) -> AsyncStream:
        """A text that something else makes.

        Args:
            chunks: None when the text has started and its result is in `results`, then its chunks.
        """
        stream = cls.__new__(cls)
        stream._results, stream._chunks = results, chunks
        return stream

    @property
    def result(self) -> Generation:
        """Grows with the text, from its start on.

        Raises:
            UsageError: the text has not started yet.
        """
        if not self._results:
            raise UsageError("the text has not begun; take its first chunk before its result")
        return self._results[0]

    @property
    def has_begun(self) -> bool:
        """Whether there is a result."""
        return bool(self._results)

    async def start(self) -> None:
        """Waits for a slot and starts the text in it, unless it has started."""
        if not self._results:
            await anext(self._chunks)

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Chunk:
        await self.start()
        chunk = await anext(self._chunks)
        assert chunk is not None
        return chunk

    async def aclose(self) -> None:
        """Ends the text, if it has not ended yet; another may then begin."""
        await self._chunks.aclose()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Slot:
    """A slot of a batch, from the moment a text gets it to the text's end."""

    def __init__(self, batch: AsyncBatch) -> None:
        self._batch = batch
        self._is_taken = False

    async def take(self) -> None:
        """Waits until one is free. A waiter that is cancelled leaves the queue."""
        self._batch.waiting += 1
        try:
            await self._batch.slots.acquire()
        finally:
            self._batch.waiting -= 1
        self._batch.running += 1
        self._is_taken = True

    def leave(self) -> None:
        """Makes the slot free, once."""
        if self._is_taken:
            self._is_taken = False
            self._batch.running -= 1
            self._batch.slots.release()


async def _chunks(
    batch: AsyncBatch, prompt: _PromptOnce, options: GenerationOptions, results: list[Generation]
) -> AsyncGenerator[Chunk | None, None]:
    """None when the text has started and its result is in `results`, then its chunks."""
    slot = _Slot(batch)
    await slot.take()
    events: asyncio.Queue[Event] = asyncio.Queue()

    def receive(event: Event) -> None:
        if not isinstance(event, list):
            slot.leave()  # also while the text's reader is slow
        events.put_nowait(event)

    try:
        tokens = await prompt.tokens()
        starting = batch.thread.start(tokens, options, asyncio.get_running_loop(), receive)
        try:
            text = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            if not starting.cancelled():  # it starts now, and nobody wants it
                batch.thread.run(lambda: starting.result().close())
            raise
        results.append(text.result)
        try:
            yield None
            while (event := await events.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                for chunk in event:
                    yield chunk
        finally:
            batch.thread.close(text)
    finally:
        slot.leave()


_Numbered = tuple[int, Chunk | BaseException | None]  # of a text's number; None is its end


def interleaved(
    streams: Sequence[AsyncStream],
) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """The number of a text and its next `Chunk`, or None at its end, as they are made.

    Each text starts when a slot is free for it, one after the other, so that a request for many
    texts does not keep others waiting. All of them end with this iteration.

    Args:
        streams: have not started; at least one.
    """
    return _all(streams) if len(streams) > 1 else _alone(streams[0])


async def _alone(stream: AsyncStream) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """What `interleaved` says, without the tasks that several texts need."""
    try:
        await stream.start()
        async for chunk in stream:
            yield 0, chunk
        yield 0, None
    finally:
        await stream.aclose()


async def _all(
    streams: Sequence[AsyncStream],
) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """What `interleaved` says."""
    events: asyncio.Queue[_Numbered] = asyncio.Queue()
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
