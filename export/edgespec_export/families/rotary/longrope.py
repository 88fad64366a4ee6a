"""LongRoPE: rotary positions with a factor for each frequency (Ding et al. 2024, arXiv 2402.13753).

A model has two lists of factors: short ones for texts up to its original length, long ones beyond
it. A text that passes this length would have to compute all its keys anew, so an export has one of
the two: the short ones, and its cache ends at the original length; or, if it is asked for, the long
ones for every text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_export.components.positions import Rotary

__all__ = ["LongRope", "has_longrope", "split_longrope", "with_long_factors_only"]

KINDS = ("longrope", "su")  # the older name
ORIGINAL = "original_max_position_embeddings"
# What it adds to a config's rotary settings.
OWN = {ORIGINAL, "factor", "attention_factor", "short_factor", "long_factor", "type"}


@dataclass(frozen=True)
class LongRope:
    """What a config asks for.

    Attributes:
        divisors: of the frequencies, one for each pair of rotated numbers.
        amplitude: of cosines and sines.
        positions: the original length.
    """

    divisors: npt.NDArray[np.float32]
    amplitude: float
    positions: int

    def applied(self, rotary: Rotary) -> Rotary:
        """Rotary positions of which the first pairs are scaled.

        Raises:
            ValueError: there are not as many factors as rotated pairs.
        """
        frequencies = rotary.frequencies.copy()
        pairs = np.count_nonzero(frequencies)
        if self.divisors.shape != (pairs,):
            raise ValueError(f"short_factor has no {pairs} numbers")
        frequencies[:pairs] /= self.divisors
        amplitudes = np.ones_like(frequencies)
        amplitudes[:pairs] = self.amplitude
        return replace(rotary, frequencies=frequencies, amplitudes=amplitudes)


def split_longrope(values: dict[str, Any]) -> tuple[dict[str, Any], LongRope | None]:
    """A config without its LongRoPE settings, and these; None where it has other positions.

    Raises:
        ArithmeticError, KeyError, TypeError, ValueError: a setting is missing or of the wrong kind.
    """
    if not has_longrope(values):
        return values, None
    name, rope = _settings(values)
    original, amplitude = _original(values, rope), _amplitude(values, rope)
    short = np.array(rope["short_factor"], np.float32)
    rest = {key: value for key, value in rope.items() if key not in OWN}
    return {**values, name: rest | {"rope_type": "default"}}, LongRope(short, amplitude, original)


def has_longrope(values: dict[str, Any]) -> bool:
    """Whether a config asks for it."""
    _, rope = _settings(values)
    return not {rope.get("rope_type"), rope.get("type")}.isdisjoint(KINDS)


def with_long_factors_only(values: dict[str, Any]) -> dict[str, Any]:
    """A config with LongRoPE whose short factors are its long ones, up to its full length.

    transformers takes the long factors for a text beyond the original length, for all its keys;
    here shorter texts have them, too, as in vLLM and llama.cpp with a cache of that length.

    Raises:
        ArithmeticError, KeyError, TypeError, ValueError: a setting is missing or of the wrong kind.
    """
    name, rope = _settings(values)
    rope |= {"short_factor": rope["long_factor"], "attention_factor": _amplitude(values, rope)}
    rope[ORIGINAL] = values["max_position_embeddings"]
    return {**values, name: rope}


def _settings(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The key of a config's rotary settings, and a copy of them."""
    name = "rope_scaling" if values.get("rope_scaling") else "rope_parameters"
    return name, dict(values.get(name) or {})


def _original(values: dict[str, Any], rope: dict[str, Any]) -> int:
    return int(rope.get(ORIGINAL) or values[ORIGINAL])


def _amplitude(values: dict[str, Any], rope: dict[str, Any]) -> float:
    """What cosines and sines are multiplied by: the config's, or the paper's by the lengths."""
    original = _original(values, rope)
    factor = rope.get("factor") or values["max_position_embeddings"] / original
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return float(rope.get("attention_factor") or usual)
