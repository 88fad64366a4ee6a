"""The one thread that uses a pair, for texts that grow in it while event loops wait for them.

A pair must not be used by two threads, and an event loop must not compute. So everything that uses
the pair, tokenizing included, runs here. The events of all texts in a step are passed on together.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.concurrent.batch import Batch
from edgespec.pair.concurrent.daemon_threads import LAST_JOB_S
from edgespec.pair.generation import Chunk, Stream
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import PromptInput

__all__ = ["BatchThread", "Event"]

T = TypeVar("T")
Event = list[Chunk] | BaseException | None  # of a text: more of it; why it failed; its end


@dataclass(frozen=True, eq=False)
class _RunningSequence:
    """A text that grows in the thread.

    Attributes:
        stream: its chunks.
        loop: waits for it.
        receive: is called in the event loop with all events of the text, in order.
    """

    stream: Stream
    loop: asyncio.AbstractEventLoop
    receive: Callable[[Event], None]

    def events(self) -> Iterator[Event]:
        """What the latest step brought; ends with the text's end, or with its error."""
        try:
            chunks = self.stream.ready()
        except Exception as error:
            yield error
            return
        if chunks:
            yield chunks
        if self.stream.ended:
            yield None


class BatchThread:
    """Makes calls for all texts that were started, as long as there are any.

    Args:
        batch: of the pair. Only the thread uses it from now on.

    Attributes:
        started: number of texts so far.
        tokens: emitted so far.
    """

    def __init__(self, batch: Batch) -> None:
        self.started = 0
        self.tokens = 0
        self._batch = batch
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._sequences: list[_RunningSequence] = []
        self._stopping = self._stopped = False
        # A daemon: a call of the model cannot be interrupted, and must not delay the exit for long.
        self._thread = Thread(target=self._work, name="edgespec texts", daemon=True)
        self._thread.start()
        atexit.register(self._end)

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

    def start(
        self,
        prompt: PromptInput,
        options: GenerationOptions,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[Event], None],
    ) -> Future[Stream]:
        """Starts a text beside the others; the batch must have a slot for it.

        Args:
            loop: waits for the text.
            receive: is called there with all events of the text, in order.
        """

        def started() -> Stream:
            sequence = _RunningSequence(self._batch.stream(prompt, **options), loop, receive)
            self._sequences.append(sequence)
            self.started += 1
            return sequence.stream

        return self.run(started)

    def close(self, stream: Stream) -> None:
        """Ends a text, if it has not ended yet, and frees its slot for one that starts later."""
        self._add(stream.close)

    def stop(self) -> Future[None]:
        """Ends the thread, and all texts, with an error for those who wait for them."""
        self._stopping = True
        return self._add(self._stop)

    def _end(self) -> None:
        """Ends the thread before the process ends, see `LAST_JOB_S`."""
        self.stop()
        self._thread.join(LAST_JOB_S)

    # --- in the thread ---

    def _work(self) -> None:
        while not self._stopped:
            if self._jobs.qsize() or not self._sequences:
                job = self._jobs.get()
                job()
                del job  # what it holds must not live until the next job comes
                continue
            self._sequences = [
                sequence for sequence in self._sequences if not sequence.stream.ended
            ]
            if self._sequences:
                self._step()

    def _step(self) -> None:
        try:
            self._batch.step()
        except Exception as error:  # nobody knows whose it is; the thread must live on
            self._fail(error)
            return
        events = [(sequence, event) for sequence in self._sequences for event in sequence.events()]
        for _, event in events:
            if isinstance(event, list):
                self.tokens += sum(chunk.token is not None for chunk in event)
        _pass_on(events)

    def _stop(self) -> None:
        self._stopped = True
        atexit.unregister(self._end)
        self._fail(EdgespecError("the texts were closed before this one ended"))
        self._batch.keep()

    def _fail(self, error: Exception) -> None:
        """Ends all texts."""
        sequences = [sequence for sequence in self._sequences if not sequence.stream.ended]
        for sequence in sequences:
            sequence.stream.close()
        _pass_on([(sequence, error) for sequence in sequences])


def _pass_on(events: Sequence[tuple[_RunningSequence, Event]]) -> None:
    """Tells each event loop, with one call, the events of its texts."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_RunningSequence, Event]]] = {}
    for sequence, event in events:
        by_loop.setdefault(sequence.loop, []).append((sequence, event))
    for loop, items in by_loop.items():
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(_receive, items)


def _receive(items: Sequence[tuple[_RunningSequence, Event]]) -> None:
    for sequence, event in items:
        sequence.receive(event)


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
