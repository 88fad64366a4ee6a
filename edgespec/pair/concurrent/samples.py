"""Several texts of some prompts, growing in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.pair.concurrent.seeds import check_n, seeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgespec.pair.concurrent.batch import Batch
    from edgespec.pair.generation import Generation, Stream
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.prompt import PromptInput

__all__ = ["Samples"]


class Samples:
    """Texts of some prompts that are made in a batch beside others. With a seed, text number i of
    a prompt is drawn with seed + i.

    Each begins with a call of `grow` that finds a cache free. Equal beginnings are copied from
    cache to cache, so the prompt is read once.

    Args:
        batch: of the pair; its `step` makes these grow, too.
        prompts: at least one.
        n: how many texts of each, from 1.
        options: of each.

    Raises:
        UsageError: n is below 1.

    Attributes:
        results: of the texts that have begun, by number, those of one prompt after another;
            complete when all have ended.
    """

    def __init__(
        self, batch: Batch, prompts: Sequence[PromptInput], n: int, options: GenerationOptions
    ) -> None:
        check_n(n)
        self.results: list[Generation] = []
        self._batch = batch
        self._prompts = [*prompts]  # encoded with the first text of each
        self._n = n
        self._count = n * len(prompts)
        self._options = options
        self._streams: list[Stream] = []

    def grow(self) -> None:
        """Takes the tokens of the latest step, and begins the texts that wait, as far as
        caches are free.

        Raises:
            EdgespecError: one of them cannot be made; then all have ended.
        """
        try:
            for stream in self._streams:
                stream.ready()
            self._streams = [stream for stream in self._streams if not stream.ended]
            while len(self.results) < self._count and self._batch.free:
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        number, sample = divmod(len(self.results), self._n)
        own = seeded(self._options, sample)
        self._prompts[number] = self._batch.encoded(self._prompts[number], own)
        stream = self._batch.stream(self._prompts[number], **own)
        self._streams.append(stream)
        self.results.append(stream.result)

    @property
    def ended(self) -> bool:
        """Whether all of them have ended."""
        return len(self.results) == self._count and not self._streams

    def close(self) -> None:
        """Ends those that have not ended yet, and frees their caches for other texts."""
        for stream in self._streams:
            stream.close()
        self._streams = []
