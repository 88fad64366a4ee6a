"""How a model is to be sampled according to who published it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from edgespec.core.distribution_options import (
    LogitEditOptions,
    LogitEdits,
    Sampling,
    SamplingOptions,
    options_of,
)

__all__ = ["SAMPLING", "USUAL_LENGTH", "DefaultOptions", "EditOptions", "GenerationDefaults"]

# The sampling options that a model may set, in the order of `Sampling`.
SAMPLING = [name for name, option in options_of(Sampling).items() if option.model_sets]
USUAL_LENGTH = 512  # new tokens, where the model does not name a number


class EditOptions(LogitEditOptions, total=False):
    """Keyword arguments of `edgespec.Pair.stream` that change a text however it is sampled."""

    stop: Sequence[str]


class DefaultOptions(SamplingOptions, EditOptions, total=False):
    """Keyword arguments of `edgespec.Pair.stream` that a model may set."""

    max_new_tokens: int


@dataclass(frozen=True)
class GenerationDefaults:
    """A model's own settings for generating text; None where it names none.

    Attributes:
        temperature, top_k, top_p, min_p, xtc_probability, xtc_threshold: see `Sampling`;
            temperature 0 is greedy.
        max_new_tokens: the longest text.
        repetition_penalty, min_tokens: see `LogitEdits`.
        logit_bias: see `LogitEdits`; by token ids written out, as JSON has them.
        stop: texts that end a text.

    Raises:
        ValueError: a value is out of range.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    max_new_tokens: int | None = None
    repetition_penalty: float | None = None
    min_tokens: int | None = None
    logit_bias: dict[str, float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Sampling(**self.sampling())
        edits = self.edits()
        if not all(edits.pop("stop", [True])):
            raise ValueError("stop has an empty text")
        LogitEdits(**cast(LogitEditOptions, edits))
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}")

    def sampling(self) -> SamplingOptions:
        """The settings that the model names, as keyword arguments of `Sampling`."""
        values = {name: getattr(self, name) for name in SAMPLING}
        named = {name: value for name, value in values.items() if value is not None}
        return cast(SamplingOptions, named)

    def edits(self) -> EditOptions:
        """The settings that change a text however it is sampled, as far as the model names any."""
        values = {
            "repetition_penalty": self.repetition_penalty,
            "min_tokens": self.min_tokens,
            "logit_bias": {int(token): bias for token, bias in self.logit_bias.items()} or None,
            "stop": list(self.stop) or None,
        }
        named = {name: value for name, value in values.items() if value is not None}
        return cast(EditOptions, named)

    def length(self) -> int:
        """The most new tokens: the model's own number, or 512."""
        return USUAL_LENGTH if self.max_new_tokens is None else self.max_new_tokens

    def options(self) -> DefaultOptions:
        """The arguments that follow from these settings; greedy unless the model says otherwise."""
        sampling: SamplingOptions = {"temperature": 0.0, **self.sampling()}
        return {**sampling, **self.edits(), "max_new_tokens": self.length()}

    def __str__(self) -> str:
        named = [f"{name} {value}" for name, value in self.sampling().items()]
        how = named if self.temperature else ["greedy"]
        for name in ("repetition_penalty", "min_tokens"):
            value = getattr(self, name)
            how += [] if value is None else [f"{name} {value:g}"]
        if self.logit_bias:
            how.append(f"logit_bias of {len(self.logit_bias)} tokens")
        how += [f"stop {text!r}" for text in self.stop]
        return f"{', '.join(how)}, at most {self.length()} new tokens"
