"""What all routes of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from edgespec.openai.unknown_fields import UnknownFields
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.server.cut_off import CutOff, cut_off
from edgespec.server.limits import Limits
from edgespec.server.observations import Observations
from edgespec.server.served_model import ServedModels
from edgespec.server.served_speech import ServedSpeech
from edgespec.server.statuses import StoppedError, StoppingError

__all__ = ["Served"]

# Requests that are read at once: grammars are checked, templates rendered, prompts encoded.
READERS = 4


class _Stopping(asyncio.Event):
    """Is set when the server stops; ends the blocks that were added."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: set[CutOff] = set()

    def set(self) -> None:
        super().set()
        for block in self.blocks:
            block(StoppedError("the server is stopping; start it again"))


class Served:
    """The pairs, and the state of the server.

    Args:
        routes: paths that are told apart in /metrics.

    Attributes:
        by_name: the models that make texts.
        speeches: those that make text of sound, by name.
        drafting: options of `Pair.stream` that no request decides.
        stopping: every request ends now.
        draining: no other request is taken; those that run may end.
        readers: threads that read requests.
        observations: of the requests so far.
    """

    def __init__(
        self,
        pairs: Mapping[str, Pair],
        drafting: GenerationOptions,
        limits: Limits,
        strict: bool,
        routes: Collection[str],
    ) -> None:
        self.drafting = drafting
        self.limits = limits
        hearing = {name: pair for name, pair in pairs.items() if pair.manifest.target.is_speech}
        texts = {name: pair for name, pair in pairs.items() if name not in hearing}
        self.by_name = ServedModels(texts, limits)
        draft = drafting.get("draft")
        self.speeches = {
            name: ServedSpeech(name, pair, draft, limits.queue) for name, pair in hearing.items()
        }
        self.stopping = _Stopping()
        self.draining = asyncio.Event()
        self.unknown = UnknownFields(strict)
        self.readers = DaemonThreads(READERS)
        self.observations = Observations(routes)

    def check(self) -> None:
        """Raises StoppingError if no other request is taken."""
        if self.draining.is_set() or self.stopping.is_set():
            raise StoppingError("the server is stopping; ask it again when it has been started")

    @asynccontextmanager
    async def until_stopped(self) -> AsyncIterator[None]:
        """The block ends when the server stops. Raises StoppedError then."""
        async with cut_off() as block:
            self.stopping.blocks.add(block)
            try:
                yield
            finally:
                self.stopping.blocks.discard(block)
