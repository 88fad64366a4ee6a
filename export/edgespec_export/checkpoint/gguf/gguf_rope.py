"""Rotary scaling of a GGUF file, as a Hugging Face config says it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader

__all__ = ["ROPE_FACTORS", "rope_scaling"]

# Llama 3.1 and later keep their scaling as this tensor: what each frequency is divided by.
ROPE_FACTORS = "rope_freqs.weight"

# No Llama has shipped with others, and the file does not say.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def rope_scaling(header: GgufHeader, arch: str, theta: float, size: int) -> dict[str, Any] | None:
    """The config's `rope_scaling`: None, linear, or llama3.

    Args:
        header: the file.
        arch: prefix of its keys.
        theta: base of the frequencies.
        size: width of a head.

    Raises:
        EdgespecError: another scaling, by name, or factors that are not Llama 3's.
    """
    kind = header.metadata.get(f"{arch}.rope.scaling.type", "none")
    factor = header.metadata.get(f"{arch}.rope.scaling.factor")
    if kind not in ("none", "linear"):
        raise EdgespecError(f"{header.path}: rope scaling {kind!r} is not supported")
    scaled = kind == "linear" and factor not in (None, 1.0)
    if ROPE_FACTORS not in header.tensors:
        return {"rope_type": "linear", "factor": float(factor or 1.0)} if scaled else None
    if scaled:
        raise EdgespecError(f"{header.path}: has rope scaling 'linear' and {ROPE_FACTORS} both")
    return _llama3(header, theta, size)


def _llama3(header: GgufHeader, theta: float, size: int) -> dict[str, Any]:
    tensor = header.tensors[ROPE_FACTORS]
    if tensor.kind.name != "F32" or tensor.shape != (size // 2,):
        raise EdgespecError(
            f"{header.path}: {ROPE_FACTORS} is {tensor.kind.name} {list(tensor.shape)}, "
            f"not F32 [{size // 2}]"
        )
    stored = np.fromfile(header.path, "<f4", size // 2, offset=tensor.offset)
    factor = float(stored.max())
    if not np.allclose(stored, _llama3_factors(factor, theta, size), rtol=1e-4, atol=0):
        raise EdgespecError(f"{header.path}: {ROPE_FACTORS} is not the rope scaling of Llama 3")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def _llama3_factors(factor: float, theta: float, size: int) -> np.ndarray[Any, Any]:
    """[size / 2]: what Llama 3 divides each frequency by, long waves more than short ones."""
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    context = _LLAMA3["original_max_position_embeddings"]
    wavelengths = 2 * math.pi * theta ** (np.arange(0, size, 2) / size)
    smooth = np.clip((context / wavelengths - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - smooth) / factor + smooth))
