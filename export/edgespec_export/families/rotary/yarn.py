"""YaRN: rotary positions for texts longer than those of training (Peng et al. 2023, arXiv
2309.00071).

High frequencies stay, low ones are divided by a factor, those between are blended, and cosines and
sines are multiplied by an amplitude. All of it is fixed: it does not depend on the text's length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["OF_YARN", "yarn_amplitude", "yarn_frequencies"]

# Settings that only YaRN has, and those that some configs have and transformers does not read.
OF_YARN = {
    *("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    *("attn_factor", "finetuned"),
}
NARROWEST = 0.001  # of the blend, in pairs


def yarn_frequencies(
    frequencies: npt.NDArray[np.float32],
    settings: Mapping[str, Any],
    *,
    base: float,
    factor: float,
    trained: int,
) -> npt.NDArray[np.float32]:
    """The frequencies of a model that was trained on `trained` positions, [rotated / 2].

    Args:
        frequencies: those of the base alone, radians per position.
        settings: beta_fast and beta_slow, the turns in `trained` positions from which on a
            frequency stays and below which it is divided; truncate, whether these bounds are
            whole pairs.
        factor: of the length.
    """
    turns = [settings.get("beta_fast") or 32, settings.get("beta_slow") or 1]
    first, last = (_pair_that_turns(count, 2 * len(frequencies), base, trained) for count in turns)
    if settings.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * len(frequencies) - 1)
    width = last - first if last != first else NARROWEST
    pairs = np.arange(len(frequencies), dtype=np.float32)
    divided = np.clip((pairs - np.float32(first)) / np.float32(width), 0, 1)
    lowered = 1 / (np.float32(factor) * (1 / frequencies))
    blended: npt.NDArray[np.generic] = lowered * divided + frequencies * (1 - divided)
    return blended.astype(np.float32)


def yarn_amplitude(settings: Mapping[str, Any], factor: float) -> float:
    """What cosines and sines are multiplied by: as stated, else by the factor's logarithm."""
    stated = settings.get("attention_factor")
    if stated is not None:
        return float(stated)
    over, under = settings.get("mscale"), settings.get("mscale_all_dim")
    if over and under:
        return _amplitude(factor, over) / _amplitude(factor, under)
    return _amplitude(factor, 1.0)


def _amplitude(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _pair_that_turns(count: float, rotated: int, base: float, trained: int) -> float:
    """The pair of numbers, counted from 0, that turns `count` times in `trained` positions."""
    return rotated * math.log(trained / (count * 2 * math.pi)) / (2 * math.log(base))
