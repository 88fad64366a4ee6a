"""Rotary positions: the frequencies that a config asks for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.model_config import Config

__all__ = ["inverse_frequencies", "partial_frequencies", "rotated_numbers"]


def inverse_frequencies(config: Config, head_size: int, label: str) -> npt.NDArray[np.float32]:
    """Radians per position of each pair of a head's numbers, all rotated: [head_size / 2].

    Raises:
        EdgespecError: a config that rotates a part of each head.
        ArithmeticError, ValueError, EdgespecError: as `partial_frequencies`.
    """
    rotated = rotated_numbers(config, head_size)
    if rotated != head_size:
        raise EdgespecError(
            f"{label}: config.json says partial_rotary_factor = {rotated / head_size:g}; edgespec "
            "exports models of this type only with 1.0"
        )
    return partial_frequencies(config, head_size, head_size, label)


@np.errstate(divide="raise", invalid="raise", over="raise")
def partial_frequencies(
    config: Config, head_size: int, rotated: int, label: str
) -> npt.NDArray[np.float32]:
    """Radians per position of each pair of a head's numbers, 0 beyond the rotated ones.

    Su et al. (2021), arXiv 2104.09864; "linear" and "llama3" lower them for longer texts, "dynamic"
    for texts beyond the config's positions only, which no cache here holds.

    Args:
        rotated: how many numbers of a head are rotated (`rotated_numbers`).

    Returns:
        [head_size / 2], the rotated ones first.

    Raises:
        ArithmeticError: a base or a factor that gives no frequencies.
        ValueError: an odd size, which has no pairs.
        EdgespecError: a scaling whose frequencies depend on the text's length, or an unknown one.
    """
    if head_size % 2 or rotated % 2:
        raise ValueError(f"head_dim is {head_size}")
    scaling = _settings(config)
    top = config.number("rope_theta", 10000.0)
    theta = scaling.pop("rope_theta", None) or top
    scaling.pop("partial_rotary_factor", None)
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    exponents = np.arange(0, rotated, 2, dtype=np.float32) / np.float32(rotated)
    frequencies: npt.NDArray[np.float32] = (1.0 / np.float32(theta) ** exponents).astype(np.float32)
    if kind == "linear":
        frequencies = np.divide(frequencies, scaling.pop("factor"), dtype=np.float32)
    elif kind == "llama3":
        default = config.get("max_position_embeddings")
        frequencies = _llama3(
            frequencies,
            factor=scaling.pop("factor"),
            low=scaling.pop("low_freq_factor"),
            high=scaling.pop("high_freq_factor"),
            trained=scaling.pop("original_max_position_embeddings", default),
        )
    elif kind == "dynamic":
        scaling.pop("factor")
    elif kind != "default":
        raise EdgespecError(
            f"{label}: config.json asks for rope scaling {kind!r}; edgespec exports default, "
            "linear, llama3 and dynamic"
        )
    if scaling:
        raise EdgespecError(f"{label}: config.json has unknown rope settings: {sorted(scaling)}")
    return np.concatenate([frequencies, np.zeros((head_size - rotated) // 2, np.float32)])


def rotated_numbers(config: Config, head_size: int) -> int:
    """How many numbers of a head are rotated: the first ones.

    Raises:
        ValueError: a share of a head that is none.
    """
    fraction = config.get("partial_rotary_factor", 1.0)
    fraction = _settings(config).get("partial_rotary_factor") or fraction
    if type(fraction) not in (int, float) or not 0 < fraction <= 1:
        raise ValueError(f"partial_rotary_factor is {shortened(fraction)}")
    return int(head_size * fraction)


def _settings(config: Config) -> dict[str, Any]:
    """The rope settings, which have two names; the older one counts unless it is empty.

    Transformers does the same: it then ignores the other one, even its `rope_theta`.
    """
    older, newer = config.get("rope_scaling"), config.get("rope_parameters")
    return dict(older or newer or {})


def _llama3(
    frequencies: npt.NDArray[np.float32], *, factor: float, low: float, high: float, trained: int
) -> npt.NDArray[np.float32]:
    """Divides low frequencies by `factor`, keeps high ones and blends those between."""
    wavelength = 2 * math.pi / frequencies
    blend = np.clip((trained / wavelength - low) / (high - low), 0, 1)
    blended: npt.NDArray[np.generic] = (1 - blend) * frequencies / factor + blend * frequencies
    return blended.astype(np.float32)
