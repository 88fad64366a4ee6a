"""Several texts of one pair for coroutines, which wait while one thread computes for all of them.

Texts that wait for their turn wait in the event loop, so they hold no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Unpack

from edgespec.errors import UsageError
from edgespec.pair.generation import Chunk, Generation
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import PromptInput
from edgespec.pair.several.samples import check_n, seeded
from edgespec.pair.several.text_thread import BegunText, News, TextThread

if TYPE_CHECKING:
    from edgespec.pair.several.many_texts import ManyTexts

__all__ = ["AsyncSamples", "AsyncStream", "AsyncTexts"]

Came = asyncio.Queue[tuple[int, News]]  # of all texts of one prompt, by their numbers


class AsyncTexts:
    """Texts of one pair that coroutines of one event loop make at once; `Pair.amany` makes it.

    Texts begin in the order in which they were asked for, and share the calls of the models. A text
    whose task is cancelled, or which is closed, ends and leaves its cache to another one.

    Args:
        many: the pair's texts, which nobody else may use.

    Attributes:
        many: likewise.
        running, waiting: texts that are being made, and that wait for their turn.
        turns: as many as there are caches.
    """

    def __init__(self, many: ManyTexts) -> None:
        self.many = many
        self.running = self.waiting = 0
        self.turns = asyncio.Semaphore(many.capacity)
        self._thread = TextThread(many)

    @property
    def begun(self) -> int:
        """Texts so far."""
        return self._thread.begun

    @property
    def tokens(self) -> int:
        """Tokens emitted so far."""
        return self._thread.tokens

    @property
    def is_full(self) -> bool:
        """Whether a text that comes now has to wait."""
        return self.turns.locked()

    def stream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> AsyncStream:
        """A text as it grows; the options are those of `Pair.stream`, and so are the errors, which
        come with the first chunk."""
        return AsyncStream(AsyncSamples(self, prompt, 1, options))

    def samples(
        self, prompt: PromptInput, n: int, **options: Unpack[GenerationOptions]
    ) -> AsyncSamples:
        """Several texts of one prompt as they grow. With a seed, text number i is drawn with
        seed + i.

        Raises:
            UsageError: n is below 1.
        """
        check_n(n)
        return AsyncSamples(self, prompt, n, options)

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
        `ManyTexts.results`. Prompts are taken one by one as texts end."""
        check_n(n)
        numbered = enumerate(prompt for prompt in prompts for _ in range(n))
        running: dict[asyncio.Task[Generation], int] = {}
        try:
            while True:
                while len(running) < self.many.capacity and (one := next(numbered, None)):
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

    async def begin(
        self, number: int, prompt: PromptInput, options: GenerationOptions, came: Came
    ) -> Place:
        """Waits for its turn, and begins a text whose news come with this number."""
        place = Place(self, self._thread)
        await place.taken()

        def receive(news: News) -> None:
            if not isinstance(news, list):
                place.leave()
            came.put_nowait((number, news))

        try:
            loop = asyncio.get_running_loop()
            starting = self._thread.begin(prompt, options, loop, receive)
            try:
                place.text = await asyncio.wrap_future(starting)
            except asyncio.CancelledError:
                if not starting.cancelled():  # it begins now, and nobody wants it
                    self._thread.run(lambda: starting.result().stream.close())
                raise
        except BaseException:
            place.leave()
            raise
        return place

    async def aclose(self) -> None:
        """Ends all texts, and the thread."""
        await asyncio.wrap_future(self._thread.stop())

    async def __aenter__(self) -> AsyncTexts:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Place:
    """A place among the texts that are made at once, from a text's turn to its end.

    Attributes:
        text: that has it; None until it has begun.
    """

    def __init__(self, texts: AsyncTexts, thread: TextThread) -> None:
        self.text: BegunText | None = None
        self._texts = texts
        self._thread = thread
        self._is_taken = False

    async def taken(self) -> None:
        """Waits until a place is free. A waiter that is cancelled leaves the queue."""
        self._texts.waiting += 1
        try:
            await self._texts.turns.acquire()
        finally:
            self._texts.waiting -= 1
        self._texts.running += 1
        self._is_taken = True

    def leave(self) -> None:
        """Makes the place free, once."""
        if self._is_taken:
            self._is_taken = False
            self._texts.running -= 1
            self._texts.turns.release()

    def close(self) -> None:
        """Ends the text, if it has not ended yet."""
        if self.text is not None and self._is_taken:
            self._thread.close(self.text)
        self.leave()


class AsyncSamples:
    """Texts of one prompt: iterates over the number of a text and its next `Chunk`, or None at its
    end.

    They begin with the first step of the iteration. Left before their end, they end when they are
    closed, at the end of an `async with` block, when their task is cancelled, or when nothing
    refers to them any more.

    Attributes:
        results: of the texts that have begun, by number; complete at the end.
    """

    def __init__(
        self, texts: AsyncTexts, prompt: PromptInput, n: int, options: GenerationOptions
    ) -> None:
        self.results: list[Generation] = []
        self._chunks = _samples(texts, prompt, n, options, self.results)

    def __aiter__(self) -> AsyncSamples:
        return self

    async def __anext__(self) -> tuple[int, Chunk | None]:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """Ends the texts that have not ended yet; others may then begin."""
        await self._chunks.aclose()

    async def __aenter__(self) -> AsyncSamples:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncStream:
    """A text as it grows: iterates over its `Chunk`s, as `AsyncSamples` does."""

    def __init__(self, samples: AsyncSamples) -> None:
        self._samples = samples

    @property
    def result(self) -> Generation:
        """Grows with the text, from the first chunk on.

        Raises:
            UsageError: the text has not begun yet.
        """
        if not self._samples.results:
            raise UsageError("the text has not begun; take its first chunk before its result")
        return self._samples.results[0]

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Chunk:
        _, chunk = await anext(self._samples)
        if chunk is None:
            await self._samples.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Ends the text, if it has not ended yet; another may then begin."""
        await self._samples.aclose()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _samples(
    texts: AsyncTexts,
    prompt: PromptInput,
    n: int,
    options: GenerationOptions,
    results: list[Generation],
) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """The chunks of all texts as they come; fills `results`."""
    came: Came = asyncio.Queue()
    places: list[Place] = []

    async def begin(number: int) -> None:
        own = seeded(options, number)
        place = await texts.begin(number, prompt, own, came)
        places.append(place)
        if place.text is not None:
            results.append(place.text.result)

    async def begin_others() -> None:
        """Each when it is its turn, so that a request for many does not keep others waiting."""
        number = 1
        try:
            while number < n:
                await begin(number)
                number += 1
        except Exception as error:
            came.put_nowait((number, error))

    beginning: asyncio.Task[None] | None = None
    try:
        await begin(0)
        if n > 1:
            beginning = asyncio.create_task(begin_others())
        unended = n
        while unended:
            number, news = await came.get()
            if isinstance(news, BaseException):
                raise news
            if news is None:
                unended -= 1
                yield number, None
                continue
            for chunk in news:
                yield number, chunk
    finally:
        if beginning is not None:
            beginning.cancel()
        for place in places:
            place.close()
