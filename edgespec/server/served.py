"""What all routes of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from typing import NoReturn, TypeVar

from edgespec.openai.unknown_fields import UnknownFields
from edgespec.pair.concurrent.daemon_threads import DaemonThreads
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.pair import Pair
from edgespec.server.limits import Limits
from edgespec.server.observations import Observations
from edgespec.server.served_model import ServedModels
from edgespec.server.served_speech import ServedSpeech
from edgespec.server.statuses import StoppingError

__all__ = ["Served", "first_of"]

READERS = 2  # requests that are read at once; reading checks grammars and renders templates

T = TypeVar("T")


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
        self.stopping = asyncio.Event()
        self.draining = asyncio.Event()
        self.unknown = UnknownFields(strict)
        self.readers = DaemonThreads(READERS)
        self.observations = Observations(routes)

    def check(self) -> None:
        """Raises StoppingError if no other request is taken."""
        if self.draining.is_set() or self.stopping.is_set():
            raise StoppingError("the server is stopping; ask it again when it has been started")

    async def until_stopped(self, work: Awaitable[T]) -> T:
        """The result of the work, unless the server stops first. Raises StoppingError then."""

        async def stopped() -> NoReturn:
            await self.stopping.wait()
            raise StoppingError("the server is stopping; start it again")

        return await first_of(work, stopped())


async def first_of(work: Awaitable[T], ends: Awaitable[NoReturn]) -> T:
    """The result of `work`, unless `ends` raises first. The other one is cancelled."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(ends))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else tasks[1].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
