"""RoPE: the frequencies that a config.json asks for, and their application to queries and keys.

Su et al. (2021, arXiv 2104.09864). Written from the paper and from transformers, independently of
the exporter's `families/rotary/rope.py`; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from jax import Array

__all__ = ["apply_rope", "rope_frequencies"]

Frequencies = npt.NDArray[np.float32]


def rope_frequencies(values: Mapping[str, Any], head_size: int) -> Frequencies:
    """Radians per position of each pair of numbers in a head: [head_size / 2].

    Args:
        values: of config.json.

    Raises:
        EdgespecError: a scaling other than "default", "linear" and "llama3".
    """
    settings = values.get("rope_scaling") or values.get("rope_parameters") or {}
    theta = settings.get("rope_theta") or values.get("rope_theta") or 10000.0
    kind = settings.get("rope_type") or settings.get("type") or "default"
    pairs = np.arange(0, head_size, 2, dtype=np.float32)
    frequencies: Frequencies = (1 / np.float32(theta) ** (pairs / np.float32(head_size))).astype(
        np.float32
    )
    if kind == "default":
        return frequencies
    if kind == "linear":
        return (frequencies / np.float32(settings["factor"])).astype(np.float32)
    if kind == "llama3":
        trained = values.get("max_position_embeddings")
        return _llama3(frequencies, {"original_max_position_embeddings": trained, **settings})
    raise EdgespecError(f"RoPE scaling is {kind!r}; the JAX path has default, linear and llama3")


def _llama3(frequencies: Frequencies, settings: Mapping[str, Any]) -> Frequencies:
    """Llama 3.1: stretches long wavelengths by `factor`, leaves short ones, blends the others."""
    factor, trained = settings["factor"], settings["original_max_position_embeddings"]
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    wavelengths = 2 * math.pi / frequencies
    stretched = frequencies / factor
    share = (trained / wavelengths - low) / (high - low)
    blended = (1 - share) * stretched + share * frequencies
    short, long = wavelengths <= trained / high, wavelengths >= trained / low
    result: Frequencies = np.select([short, long], [frequencies, stretched], blended)
    return result.astype(np.float32)


def apply_rope(x: Array, angles: Array) -> Array:
    """Rotates the pairs (x[i], x[i + size / 2]) of every head by their position's angles.

    Args:
        x: [heads, m, size].
        angles: position times frequency, float32 [m, size / 2].
    """
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(rotated, axis=-1).astype(x.dtype)
