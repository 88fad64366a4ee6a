"""The one thread that uses a pair, for texts that grow in it while event loops wait for them.

A pair must not be used by two threads, and an event loop must not compute. So everything that uses
the pair, tokenizing included, runs here. What came of all texts in a step is passed on together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.generation import Chunk, Generation
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import PromptInput
from edgespec.pair.several.many_texts import ManyTexts, TextStream

__all__ = ["BegunText", "News", "TextThread"]

T = TypeVar("T")
News = list[Chunk] | BaseException | None  # of a text: more of it; why it failed; its end


class BegunText:
    """A text that grows in the thread.

    Args:
        receive: is called in the event loop with all that comes of the text, in order.

    Attributes:
        result: grows with the text; complete when its end was received.
    """

    def __init__(
        self, stream: TextStream, loop: asyncio.AbstractEventLoop, receive: Callable[[News], None]
    ) -> None:
        self.result: Generation = stream.result
        self.stream = stream
        self.loop = loop
        self.receive = receive

    def news(self) -> Iterator[News]:
        """What came of it in the latest step; ends with its end, or with its error."""
        try:
            chunks = self.stream.ready()
        except Exception as error:
            yield error
            return
        if chunks:
            yield chunks
        if self.stream.ended:
            yield None


class TextThread:
    """Makes calls for all texts that were begun, as long as there are any.

    Args:
        many: the pair's texts. Only the thread uses them from now on.

    Attributes:
        begun: number of texts so far.
        tokens: emitted so far.
    """

    def __init__(self, many: ManyTexts) -> None:
        self.begun = 0
        self.tokens = 0
        self._many = many
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._texts: list[BegunText] = []
        self._stopping = self._stopped = False
        # A daemon: a call of the model cannot be interrupted, and must not delay the exit.
        Thread(target=self._work, name="edgespec texts", daemon=True).start()

    def run(self, job: Callable[[], T]) -> Future[T]:
        """Runs the job in the thread, after those added earlier.

        Raises:
            UsageError: the thread was stopped.
        """
        if self._stopping:
            raise UsageError("these texts were closed; ask the pair for others")
        return self._add(job)

    def _add(self, job: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put(partial(_complete, future, job))
        return future

    def begin(
        self,
        prompt: PromptInput,
        options: GenerationOptions,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[News], None],
    ) -> Future[BegunText]:
        """Begins a text beside the others; `ManyTexts` must have a cache for it."""

        def begin() -> BegunText:
            text = BegunText(self._many.stream(prompt, **options), loop, receive)
            self._texts.append(text)
            self.begun += 1
            return text

        return self.run(begin)

    def close(self, text: BegunText) -> None:
        """Ends a text, if it has not ended yet, and frees its cache for one that begins later."""
        self._add(text.stream.close)

    def stop(self) -> Future[None]:
        """Ends the thread, and all texts, with an error for those who wait for them."""
        self._stopping = True
        return self._add(self._stop)

    # --- in the thread ---

    def _work(self) -> None:
        while not self._stopped:
            if self._jobs.qsize() or not self._texts:
                job = self._jobs.get()
                job()
                del job  # what it holds must not live until the next job comes
                continue
            self._texts = [text for text in self._texts if not text.stream.ended]
            if self._texts:
                self._step()

    def _step(self) -> None:
        try:
            self._many.step()
        except Exception as error:  # nobody knows whose it is; the thread must live on
            self._fail(error)
            return
        came = [(text, news) for text in self._texts for news in text.news()]
        for _, news in came:
            if isinstance(news, list):
                self.tokens += sum(chunk.token is not None for chunk in news)
        _pass_on(came)

    def _stop(self) -> None:
        self._stopped = True
        self._fail(EdgespecError("the texts were closed before this one ended"))

    def _fail(self, error: Exception) -> None:
        """Ends all texts."""
        texts = [text for text in self._texts if not text.stream.ended]
        for text in texts:
            text.stream.close()
        _pass_on([(text, error) for text in texts])


def _pass_on(came: Sequence[tuple[BegunText, News]]) -> None:
    """Tells each event loop, with one call, what came of its texts."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[BegunText, News]]] = {}
    for text, news in came:
        by_loop.setdefault(text.loop, []).append((text, news))
    for loop, items in by_loop.items():
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(_receive, items)


def _receive(items: Sequence[tuple[BegunText, News]]) -> None:
    for text, news in items:
        text.receive(news)


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
