"""Several texts of one prompt: the seed of each, and their growth among the texts of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.generation import Generation
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.prompt import PromptInput
    from edgespec.pair.several.many_texts import ManyTexts, TextStream

__all__ = ["Samples", "check_n", "seeded"]


class Samples:
    """Texts of one prompt that are made beside others; `ManyTexts.samples` makes it.

    Each begins with a call of `grow` that finds a cache free. Equal beginnings are copied from
    cache to cache, so the prompt is read once.

    Args:
        many: the pair's texts; its `step` makes these grow, too.
        n: how many, from 1.

    Attributes:
        results: of the texts that have begun, by number; complete when all have ended.
    """

    def __init__(
        self, many: ManyTexts, prompt: PromptInput, n: int, options: GenerationOptions
    ) -> None:
        self.results: list[Generation] = []
        self._many = many
        self._prompt = prompt
        self._n = n
        self._options = options
        self._streams: list[TextStream] = []

    def grow(self) -> None:
        """Takes what came of them with the latest step, and begins those that wait, as far as
        caches are free.

        Raises:
            EdgespecError: one of them cannot be made; then all have ended.
        """
        try:
            for stream in self._streams:
                stream.ready()
            self._streams = [stream for stream in self._streams if not stream.ended]
            while len(self.results) < self._n and self._many.free:
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        own = seeded(self._options, len(self.results))
        stream = self._many.stream(self._prompt, **own)
        self._streams.append(stream)
        self.results.append(stream.result)

    @property
    def ended(self) -> bool:
        """Whether all of them have ended."""
        return len(self.results) == self._n and not self._streams

    def close(self) -> None:
        """Ends those that have not ended yet, and frees their caches for other texts."""
        for stream in self._streams:
            stream.close()
        self._streams = []


def check_n(n: int) -> None:
    """Raises UsageError unless so many texts can be made of a prompt."""
    if n < 1:
        raise UsageError(f"n is {n}; give a whole number from 1")


def seeded(options: GenerationOptions, number: int) -> GenerationOptions:
    """The options of text number i, which is drawn with seed + i; without a seed, the same."""
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + number}
