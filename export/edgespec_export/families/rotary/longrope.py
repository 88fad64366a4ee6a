"""LongRoPE: rotary positions with a factor for each frequency (Ding et al. 2024, arXiv 2402.13753).

A model has two lists of factors: short ones for texts up to its original length, long ones beyond
it. A text that passes this length would have to compute all its keys anew, so only the short ones
are used, and a cache ends at the original length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_export.components.positions import Rotary

__all__ = ["LongRope", "split_longrope"]

KINDS = ("longrope", "su")  # the older name


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
    name = "rope_scaling" if values.get("rope_scaling") else "rope_parameters"
    rope = dict(values.get(name) or {})
    if not {rope.get("rope_type"), rope.get("type")}.intersection(KINDS):
        return values, None
    original = rope.pop("original_max_position_embeddings", None)
    original = original or values["original_max_position_embeddings"]
    longest = values["max_position_embeddings"]
    factor = rope.pop("factor", None) or longest / original
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    amplitude = rope.pop("attention_factor", None) or usual
    short = np.array(rope.pop("short_factor"), np.float32)
    rope.pop("long_factor")
    rope.pop("type", None)
    rest = {**values, name: rope | {"rope_type": "default"}}
    return rest, LongRope(short, float(amplitude), int(original))
