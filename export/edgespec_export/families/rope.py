"""Rotary positions: the frequencies that a config asks for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.families.model_config import Config

__all__ = ["inverse_frequencies"]


@np.errstate(divide="raise", invalid="raise", over="raise")
def inverse_frequencies(config: Config, head_size: int, label: str) -> npt.NDArray[np.float32]:
    """Radians per position of each pair of a head's numbers: [head_size / 2].

    Su et al. (2021), arXiv 2104.09864; "linear" and "llama3" lower them for longer texts.

    Raises:
        ArithmeticError: a base or a factor that gives no frequencies.
        ValueError: an odd size, which has no pairs.
        EdgespecError: a scaling whose frequencies depend on the text's length, or an unknown one.
    """
    if head_size % 2:
        raise ValueError(f"head_dim is {head_size}")
    scaling = _settings(config)
    top = config.number("rope_theta", 10000.0)
    theta = scaling.pop("rope_theta", None) or top
    config.must_be("partial_rotary_factor", 1.0)
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    frequencies: npt.NDArray[np.float32] = (1.0 / np.float32(theta) ** exponents).astype(np.float32)
    if scaling.pop("partial_rotary_factor", 1.0) != 1.0:
        raise EdgespecError(f"{label}: partial rotary positions are not supported")
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
    elif kind != "default":
        raise EdgespecError(
            f"{label}: config.json asks for rope scaling {kind!r}; edgespec exports default, "
            "linear and llama3"
        )
    if scaling:
        raise EdgespecError(f"{label}: config.json has unknown rope settings: {sorted(scaling)}")
    return frequencies


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
