"""How a model is to be sampled according to who published it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from edgespec.core.sampling import Sampling, SamplingOptions

__all__ = ["USUAL_LENGTH", "DefaultOptions", "GenerationDefaults"]

USUAL_LENGTH = 512  # new tokens, where the model does not name a number


class DefaultOptions(SamplingOptions, total=False):
    """Keyword arguments of `edgespec.Pair.stream` that a model may set."""

    max_new_tokens: int


@dataclass(frozen=True)
class GenerationDefaults:
    """A model's own settings for generating text; None where it names none.

    Attributes:
        temperature, top_k, top_p, min_p: see `Sampling`; temperature 0 is greedy.
        max_new_tokens: the longest text.

    Raises:
        ValueError: a value is out of range.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        Sampling(**self.sampling())
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}")

    def sampling(self) -> SamplingOptions:
        """The settings that the model names, as keyword arguments of `Sampling`."""
        names = ("temperature", "top_k", "top_p", "min_p")
        values = {name: getattr(self, name) for name in names}
        named = {name: value for name, value in values.items() if value is not None}
        return cast(SamplingOptions, named)

    def length(self) -> int:
        """The most new tokens: the model's own number, or 512."""
        return USUAL_LENGTH if self.max_new_tokens is None else self.max_new_tokens

    def options(self) -> DefaultOptions:
        """The arguments that follow from these settings; greedy unless the model says otherwise."""
        return {"temperature": 0.0, **self.sampling(), "max_new_tokens": self.length()}

    def __str__(self) -> str:
        named = ", ".join(f"{name} {value}" for name, value in self.sampling().items())
        how = named if self.temperature else "greedy"
        return f"{how}, at most {self.length()} new tokens"
