"""Several texts of each prompt: how many, and the seed of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from edgespec.errors import UsageError, shortened

if TYPE_CHECKING:
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.prompt import PromptInput

__all__ = ["check_n", "each", "seeded"]


def check_n(n: int) -> None:
    """Raises UsageError unless so many texts can be made of a prompt."""
    if n < 1:
        raise UsageError(f"n is {n}; give a whole number from 1")


def each(prompts: Iterable[PromptInput], n: int) -> Iterator[PromptInput]:
    """Each prompt `n` times.

    Raises:
        UsageError: n is below 1, or it is one prompt, whose characters or fields would be prompts.
    """
    check_n(n)
    if isinstance(prompts, (str, bytes, Mapping)):
        raise UsageError(f"the prompts are {shortened(prompts)}; give a list of prompts")
    return (prompt for prompt in prompts for _ in range(n))


def seeded(options: GenerationOptions, number: int) -> GenerationOptions:
    """The options of text number i, which is drawn with seed + i; without a seed, the same."""
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + number}
