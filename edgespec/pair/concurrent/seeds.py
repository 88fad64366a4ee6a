"""Several texts of one prompt: how many, and the seed of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.generation_options import GenerationOptions

__all__ = ["check_n", "seeded"]


def check_n(n: int) -> None:
    """Raises UsageError unless so many texts can be made of a prompt."""
    if n < 1:
        raise UsageError(f"n is {n}; give a whole number from 1")


def seeded(options: GenerationOptions, number: int) -> GenerationOptions:
    """The options of text number i, which is drawn with seed + i; without a seed, the same."""
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + number}
