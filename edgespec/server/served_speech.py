"""A speech pair that is served: one transcript at a time, others wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from edgespec.openai.json_value import JsonObject
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.pair import Pair
from edgespec.server.served_model import QueueFullError, model_card
from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.transcription_options import TranscriptionOptions

__all__ = ["ServedSpeech"]


class ServedSpeech:
    """One speech pair of a server.

    Args:
        draft: of every transcript, as `Pair.stream_transcript` takes it; None for its default.
        queue: sounds that may wait while another is transcribed.
    """

    def __init__(self, name: str, pair: Pair, draft: object, queue: int) -> None:
        self.name = name
        self.pair = pair
        self._draft = draft
        self._queue = queue
        self._asked = 0
        self._thread = DaemonThreads(1)

    @property
    def card(self) -> JsonObject:
        """OpenAI's object for a model."""
        return model_card(self.name)

    def check(self) -> None:
        """Raises QueueFullError if another sound cannot wait."""
        if self._asked > self._queue:
            raise QueueFullError(
                f"{self._asked - 1} sounds are waiting, and the queue holds {self._queue}; try "
                "again later, or start the server with a longer --queue"
            )

    async def segments(
        self, sound: Path, options: TranscriptionOptions, results: list[Transcript]
    ) -> AsyncIterator[Segment]:
        """The segments of a transcript as they are made; the transcript itself is added to
        `results` before the first, and grows.

        Raises:
            EdgespecError: it is no sound, or an option is not allowed.
        """
        loop = asyncio.get_running_loop()
        made: asyncio.Queue[Segment | None] = asyncio.Queue()
        left = Event()

        def tell(segment: Segment | None) -> None:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(made.put_nowait, segment)

        def work() -> None:
            try:
                with self.pair.stream_transcript(sound, **self._with_draft(options)) as stream:
                    results.append(stream.result)
                    for segment in stream:
                        if left.is_set():
                            return
                        tell(segment)
            finally:
                tell(None)

        self._asked += 1
        working = asyncio.create_task(self._thread.run(work))
        try:
            while (segment := await made.get()) is not None:
                yield segment
            await working
        finally:
            self._asked -= 1
            left.set()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def _with_draft(self, options: TranscriptionOptions) -> TranscriptionOptions:
        return (
            options
            if not isinstance(self._draft, bool | str)
            else {**options, "draft": self._draft}
        )
