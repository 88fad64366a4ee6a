"""The options that change a distribution: one table, from which every list of them is made.

An option is a field with its default, its range and what it does. The keyword arguments of
`Pair.stream`, the command line, the fields of requests and a model's own settings follow from these
fields; JavaScript has the same table in `core/sampling.ts`, and a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, TypedDict

from edgespec.errors import UsageError, shortened

__all__ = [
    "LogitEditOptions",
    "LogitEdits",
    "Option",
    "Sampling",
    "SamplingOptions",
    "check_option",
    "options_of",
]

MIN_TEMPERATURE = 1e-6  # below it, logits / temperature would leave float32's range
MAX_TEMPERATURE = 1e30  # far beyond it 1 / temperature is 0, and 0 times a masked logit no number
MAX_PENALTY = 2.0  # OpenAI's limits
MAX_BIAS = 100.0


@dataclass(frozen=True)
class Option:
    """What a field says about itself.

    Attributes:
        give: the values that are allowed, in words.
        holds: whether a number is one of them.
        help: what it does, for the command line.
        is_whole: only whole numbers are allowed.
        flag: a short one for the command line; empty if it has none.
        model_sets: a model may have a setting of its own.
    """

    give: str
    holds: Callable[[float], bool]
    help: str
    is_whole: bool = False
    flag: str = ""
    model_sets: bool = False


def _option(default: float, *args: Any, **named: Any) -> Any:
    return field(default=default, metadata={"option": Option(*args, **named)})


def _penalty(help: str) -> Any:
    give = f"a number from -{MAX_PENALTY:g} to {MAX_PENALTY:g}"
    return _option(0.0, give, lambda value: -MAX_PENALTY <= value <= MAX_PENALTY, help)


class SamplingOptions(TypedDict, total=False):
    """The keyword arguments of `Sampling`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float


@dataclass(frozen=True)
class Sampling:
    """Sampling options; the target and the draft share them.

    They are applied in this order: temperature, top-n-sigma, top-k, top-p, min-p, XTC. Greedy text
    depends on none but the first.

    Attributes:
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k largest logits (and those equal to the k-th); 0 keeps all.
        top_p: keep the smallest set of most probable tokens whose mass reaches it; 1 keeps all.
        min_p: keep tokens at least this fraction as probable as the most probable; 0 keeps all.
        top_n_sigma: keep tokens whose logits are at most so many standard deviations (of all finite
            logits) below the largest; 0 keeps all. Tang et al. (2024, arXiv 2411.07641).
        xtc_probability: at a token, with this probability, all tokens that have at least the
            probability `xtc_threshold` are left out but the least probable of them ("exclude top
            choices"); 0 leaves none out. The coin is part of p: p is the mean of both
            distributions by its probability, so that a verified text has the distribution of a
            plain one.
        xtc_threshold: probability that a token must have to be left out by it.

    Raises:
        UsageError: an option is out of its range.
    """

    temperature: float = _option(
        0.0,
        f"0 (greedy) or {MIN_TEMPERATURE} or more, up to {MAX_TEMPERATURE}",
        lambda value: value == 0 or MIN_TEMPERATURE <= value <= MAX_TEMPERATURE,
        "0 is greedy.",
        flag="-t",
        model_sets=True,
    )
    top_k: int = _option(
        0,
        "0 (off) or a whole number above it",
        lambda value: value >= 0,
        "Keep the k most probable tokens.",
        is_whole=True,
        model_sets=True,
    )
    top_p: float = _option(
        1.0,
        "a number above 0 and at most 1 (off)",
        lambda value: 0 < value <= 1,
        "Keep the most probable tokens up to this mass.",
        model_sets=True,
    )
    min_p: float = _option(
        0.0,
        "a number from 0 (off) to 1",
        lambda value: 0 <= value <= 1,
        "Keep tokens of at least this share of the largest.",
        model_sets=True,
    )
    top_n_sigma: float = _option(
        0.0,
        "0 (off) or a number above it",
        lambda value: 0 <= value < math.inf,
        "Keep tokens at most so many standard deviations of the logits below the largest.",
    )
    xtc_probability: float = _option(
        0.0,
        "a number from 0 (off) to 1",
        lambda value: 0 <= value <= 1,
        "How often the most probable tokens are left out, but the last above the threshold.",
        model_sets=True,
    )
    xtc_threshold: float = _option(
        0.1,
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
        "The probability from which tokens are such.",
        model_sets=True,
    )

    def __post_init__(self) -> None:
        _check_options(self)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


class LogitEditOptions(TypedDict, total=False):
    """The keyword arguments of `LogitEdits`."""

    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    min_tokens: int


@dataclass(frozen=True)
class LogitEdits:
    """Changes of logits, applied in this order, before temperature and truncation.

    Attributes:
        repetition_penalty: of tokens in the prompt and in the text: positive logits are divided by
            it, negative ones multiplied. Keskar et al. (2019, arXiv 1909.05858). The prompt of an
            encoder-decoder does not count, as in transformers. 1 changes nothing.
        presence_penalty: subtracted from the logits of generated tokens, once.
        frequency_penalty: subtracted as often as the token was generated.
        logit_bias: added to the logits of these tokens.
        min_tokens: an end-of-text token cannot come before so many others.

    Raises:
        UsageError: an option is out of its range.
    """

    repetition_penalty: float = _option(
        1.0,
        "a number above 0 (1 is off)",
        lambda value: 0 < value < math.inf,
        "Divide the logits of tokens of the prompt and the text; 1 is off.",
        model_sets=True,
    )
    presence_penalty: float = _penalty("Subtract from the logits of tokens that were generated.")
    frequency_penalty: float = _penalty("The same for each time that they were.")
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = _option(
        0,
        "0 (off) or a whole number above it",
        lambda value: value >= 0,
        "No end of the text before so many tokens.",
        is_whole=True,
        model_sets=True,
    )

    def __post_init__(self) -> None:
        _check_options(self)
        if not isinstance(self.logit_bias, Mapping):
            value = shortened(self.logit_bias)
            raise UsageError(f"logit_bias is {value}; give numbers by token ids")
        for token, bias in self.logit_bias.items():
            if not (_is_number(token, is_whole=True) and token >= 0):
                raise UsageError(f"logit_bias has the token {shortened(token)}; give its id")
            if not (_is_number(bias) and -MAX_BIAS <= bias <= MAX_BIAS):
                raise UsageError(
                    f"the logit_bias of token {token} is {shortened(bias)}; give a number from "
                    f"-{MAX_BIAS:g} to {MAX_BIAS:g}"
                )


def options_of(kind: type[Sampling | LogitEdits]) -> Mapping[str, Option]:
    """The options of a class by their names, in its order."""
    return _OPTIONS[kind]


_OPTIONS: dict[type[Sampling | LogitEdits], Mapping[str, Option]] = {
    kind: MappingProxyType(
        {f.name: f.metadata["option"] for f in fields(kind) if "option" in f.metadata}
    )
    for kind in (Sampling, LogitEdits)
}


def check_option(name: str, option: Option, value: object) -> None:
    """Raises UsageError unless an option may have this value."""
    if not (_is_number(value, is_whole=option.is_whole) and option.holds(value)):  # type: ignore[arg-type]
        raise UsageError(f"{name} is {shortened(value)}; give {option.give}")


def _check_options(values: Sampling | LogitEdits) -> None:
    for name, option in options_of(type(values)).items():
        check_option(name, option, getattr(values, name))


def _is_number(value: object, is_whole: bool = False) -> bool:
    if type(value) is int or (type(value) is float and not is_whole):
        return True
    kind = Integral if is_whole else Real
    return isinstance(value, kind) and not isinstance(value, bool)
