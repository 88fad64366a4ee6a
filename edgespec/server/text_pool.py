"""The requests for one pair, and the one thread that uses the pair.

Requests wait in the event loop, so they hold no thread. Everything that uses the pair, tokenizing
included, runs in one thread: a pair must not be used by two. That thread makes calls for all texts
that are being answered, and passes what came of them to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from edgespec.errors import EdgespecError
from edgespec.pair.generation import Chunk, Generation, GenerationOptions
from edgespec.pair.prompt import PromptInput
from edgespec.pair.several.many_texts import ManyTexts, TextStream

__all__ = ["QueueFullError", "ServedText", "TextPool"]

T = TypeVar("T")
Job = Callable[[], None]


class QueueFullError(EdgespecError):
    """As many requests wait as may wait. Status 429."""


class ServedText:
    """A text that is being made: its chunks, as an asynchronous iterator.

    Attributes:
        result: complete when the chunks have ended.
    """

    def __init__(self, stream: TextStream, loop: asyncio.AbstractEventLoop) -> None:
        self.result: Generation = stream.result
        self._stream = stream
        self._loop = loop
        self._came: asyncio.Queue[list[Chunk] | BaseException | None] = asyncio.Queue()
        self._chunks: list[Chunk] = []

    def __aiter__(self) -> ServedText:
        return self

    async def __anext__(self) -> Chunk:
        while not self._chunks:
            came = await self._came.get()
            if came is None:
                raise StopAsyncIteration
            if isinstance(came, BaseException):
                raise came
            self._chunks = came[::-1]
        return self._chunks.pop()

    # --- in the pair's thread ---

    def collect(self) -> int:
        """Passes on what is ready, and the end; returns the number of tokens."""
        try:
            chunks = self._stream.ready()
        except Exception as error:
            self._pass(error)
            return 0
        if chunks:
            self._pass(chunks)
        if self._stream.ended:
            self._pass(None)
        return sum(chunk.token is not None for chunk in chunks)

    @property
    def ended(self) -> bool:
        return self._stream.ended

    def close(self) -> None:
        self._stream.close()

    def _pass(self, came: list[Chunk] | BaseException | None) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._came.put_nowait, came)


@dataclass
class Counts:
    """What a pool did so far.

    Attributes:
        answered: texts that were begun.
        tokens: emitted.
        running, waiting: requests now.
    """

    answered: int = 0
    tokens: int = 0
    running: int = 0
    waiting: int = 0


@dataclass
class TextPool:
    """Requests get their turn in the order in which they came; so many are answered at once.

    Args:
        many: the pair's texts.
        size: requests that may wait while others are answered.
    """

    many: ManyTexts
    size: int
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.many.capacity)
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._texts: list[ServedText] = []
        # A daemon: a call of the model cannot be interrupted, and must not delay the exit.
        Thread(target=self._work, name="pair", daemon=True).start()

    def check(self) -> None:
        """Raises QueueFullError if another request cannot wait."""
        if self._turns.locked() and self.counts.waiting >= self.size:
            raise QueueFullError(
                f"{self.counts.waiting} requests are waiting, and the queue holds {self.size}; try "
                "again later, or start the server with a longer --queue"
            )

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a text can begin, and holds its place. A cancelled waiter leaves the queue.

        Raises:
            QueueFullError: at once.
        """
        self.check()
        self.counts.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.counts.waiting -= 1
        self.counts.running += 1
        try:
            yield
        finally:
            self.counts.running -= 1
            self._turns.release()

    @asynccontextmanager
    async def text(
        self, prompt: PromptInput, options: GenerationOptions
    ) -> AsyncIterator[ServedText]:
        """A text that grows beside others, to the end of the block. Needs a turn.

        Raises:
            UsageError: as `Pair.stream`.
        """
        loop = asyncio.get_running_loop()
        starting = self.add(lambda: self._start(prompt, options, loop))
        try:
            text = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            self.add(lambda: None if starting.cancelled() else starting.result().close())
            raise
        try:
            yield text
        finally:
            self.add(text.close)

    def add(self, job: Callable[[], T]) -> Future[T]:
        """Runs the job in the pair's thread, after those added earlier."""
        future: Future[T] = Future()
        self._jobs.put(partial(_complete, future, job))
        return future

    def _start(
        self, prompt: PromptInput, options: GenerationOptions, loop: asyncio.AbstractEventLoop
    ) -> ServedText:
        text = ServedText(self.many.stream(prompt, **options), loop)
        self._texts.append(text)
        self.counts.answered += 1
        return text

    def _work(self) -> None:
        while True:
            while self._jobs.qsize() or not self._texts:
                job = self._jobs.get()
                job()
                del job  # what it holds must not live until the next job comes
            self._texts = [text for text in self._texts if not text.ended]
            if self._texts:
                self.many.step()
            self.counts.tokens += sum(text.collect() for text in self._texts)


def _complete(future: Future[T], job: Callable[[], T]) -> None:
    """Runs a job, unless it was cancelled, and gives the future its result or error."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future, job  # an error's traceback holds this frame, and would hold them with it
