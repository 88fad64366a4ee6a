"""The rope scaling of a GGUF file, in the form of a Hugging Face config."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["ROPE_FACTORS", "rope_scaling"]

# The scaling of Llama 3.1 and later: a tensor of the divisor of each frequency.
ROPE_FACTORS = "rope_freqs.weight"

# The file does not contain these; all published Llamas have the same.
_LOW_FACTOR, _HIGH_FACTOR, _ORIGINAL_CONTEXT = 1.0, 4.0, 8192
_LLAMA3: JsonObject = {
    "low_freq_factor": _LOW_FACTOR,
    "high_freq_factor": _HIGH_FACTOR,
    "original_max_position_embeddings": _ORIGINAL_CONTEXT,
}


# Settings of YaRN that versions of llama.cpp apply differently, with the values of no change.
_UNSETTLED = {
    "yarn_attn_factor": (),
    "yarn_ext_factor": (-1.0, 1.0),
    "yarn_log_multiplier": (0.0,),
}
_YARN = {
    "original_context_length": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}


def rope_scaling(header: GgufHeader, arch: str, theta: float, size: int) -> JsonObject | None:
    """The config's `rope_scaling`: None, linear, yarn, or llama3.

    Args:
        header: the file.
        arch: the architecture, which is the prefix of its keys.
        theta: base of the frequencies.
        size: width of a head.

    Raises:
        EdgespecError: another scaling, by name, or factors that differ from Llama 3's.
    """
    kind = header.metadata.get(f"{arch}.rope.scaling.type", "none")
    factor = header.metadata.get(f"{arch}.rope.scaling.factor", 1.0)
    if not isinstance(factor, int | float):
        raise EdgespecError(f"{header.path}: rope scaling factor is {shortened(factor)}")
    if kind not in ("none", "linear", "yarn"):
        raise EdgespecError(f"{header.path}: rope scaling {shortened(kind)} is not supported")
    scaled = kind != "none" and factor != 1
    if ROPE_FACTORS in header.tensors:
        if scaled:
            raise EdgespecError(f"{header.path}: has both rope scaling {kind!r} and {ROPE_FACTORS}")
        return _llama3(header, theta, size)
    if not scaled:
        return None
    settings = _yarn(header, arch) if kind == "yarn" else {}
    return {"rope_type": kind, "factor": float(factor), **settings}


def _yarn(header: GgufHeader, arch: str) -> JsonObject:
    """The settings of YaRN besides the factor.

    Raises:
        EdgespecError: one that is no number, or that versions of llama.cpp apply differently.
    """
    found: JsonObject = {}
    for name in (*_UNSETTLED, *_YARN):
        key = f"{arch}.rope.scaling.{name}"
        value = header.metadata.get(key)
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise EdgespecError(f"{header.path}: {key} is {shortened(value)}, not a number")
        if name in _YARN:
            found[_YARN[name]] = value
        elif value not in _UNSETTLED[name]:
            raise EdgespecError(
                f"{header.path}: {key} = {shortened(value)}, which versions of llama.cpp apply "
                "differently; take the model's safetensors"
            )
    return found


def _llama3(header: GgufHeader, theta: float, size: int) -> JsonObject:
    tensor = header.tensors[ROPE_FACTORS]
    if tensor.kind.name != "F32" or tensor.shape != (size // 2,):
        raise EdgespecError(
            f"{header.path}: {ROPE_FACTORS} is {tensor.kind.name} {list(tensor.shape)}, "
            f"not F32 [{size // 2}]"
        )
    stored = np.fromfile(tensor.file, "<f4", size // 2, offset=tensor.offset)
    factor = float(stored.max())
    if not np.allclose(stored, _llama3_factors(factor, theta, size), rtol=1e-4, atol=0):
        raise EdgespecError(f"{header.path}: {ROPE_FACTORS} is not the rope scaling of Llama 3")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def _llama3_factors(factor: float, theta: float, size: int) -> npt.NDArray[np.float64]:
    """[size / 2]: Llama 3's divisor of each frequency, larger for longer waves."""
    wavelengths = 2 * math.pi * theta ** (np.arange(0, size, 2) / size)
    smooth = (_ORIGINAL_CONTEXT / wavelengths - _LOW_FACTOR) / (_HIGH_FACTOR - _LOW_FACTOR)
    smooth = np.clip(smooth, 0, 1)
    return np.asarray(1 / ((1 - smooth) / factor + smooth))
