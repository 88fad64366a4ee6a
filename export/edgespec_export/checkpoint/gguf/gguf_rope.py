"""The rope scaling of a GGUF file, in the form of a Hugging Face config."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["FACTORS_OF_LONGROPE", "ROPE_FACTORS", "rope_factors", "rope_scaling"]

# The scaling of Llama 3.1 and later: a tensor of the divisor of each frequency.
ROPE_FACTORS = "rope_freqs.weight"

# The file does not contain these; all published Llamas have the same.
_LOW_FACTOR, _HIGH_FACTOR, _ORIGINAL_CONTEXT = 1.0, 4.0, 8192
_LLAMA3: JsonObject = {
    "low_freq_factor": _LOW_FACTOR,
    "high_freq_factor": _HIGH_FACTOR,
    "original_max_position_embeddings": _ORIGINAL_CONTEXT,
}


# The scaling of Phi-3 and Phi-4-mini: two tensors of divisors.
_SHORT, _LONG = "rope_factors_short.weight", "rope_factors_long.weight"
FACTORS_OF_LONGROPE = frozenset({_SHORT, _LONG})

# Settings of YaRN that versions of llama.cpp apply differently, with the values of no change.
_UNSETTLED = {
    "yarn_ext_factor": (-1.0, 1.0),
    "yarn_log_multiplier": (0.0,),
}
_AMPLITUDES = ("attn_factor", "yarn_attn_factor")
_YARN = {
    "original_context_length": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
_DIVIDES_AMPLITUDES = "mistral3"  # its multiplier is both mscale and mscale_all_dim


def rope_scaling(header: GgufHeader, arch: str, theta: float, size: int) -> JsonObject | None:
    """The config's `rope_scaling`: None, linear, yarn, longrope, or llama3.

    Args:
        header: the file.
        arch: the architecture, which is the prefix of its keys.
        theta: base of the frequencies.
        size: width of a head.

    Raises:
        EdgespecError: another scaling, by name, or factors that differ from Llama 3's.
    """
    kind = header.metadata.get(f"{arch}.rope.scaling.type", "none")
    factor = _setting(header, arch, "factor") or 1.0
    if header.tensors.keys() >= FACTORS_OF_LONGROPE and kind in ("none", "longrope"):
        return _longrope(header, arch)
    if kind not in ("none", "linear", "yarn"):
        raise EdgespecError(f"{header.path}: rope scaling {shortened(kind)} is not supported")
    scaled = kind != "none" and factor != 1
    if ROPE_FACTORS in header.tensors:
        if scaled:
            raise EdgespecError(f"{header.path}: has both rope scaling {kind!r} and {ROPE_FACTORS}")
        return _llama3(header, theta, size)
    if kind == "yarn" and scaled:
        return {"rope_type": kind, "factor": factor, **_yarn(header, arch, factor)}
    amplitude = _setting(header, arch, "attn_factor")
    if amplitude not in (None, 1.0):
        raise _unsettled(header, f"{arch}.rope.scaling.attn_factor", amplitude)
    return {"rope_type": kind, "factor": factor} if scaled else None


def _setting(header: GgufHeader, arch: str, name: str) -> float | None:
    """A number of the rope scaling; None if the file does not state it.

    Raises:
        EdgespecError: it is no number.
    """
    key = f"{arch}.rope.scaling.{name}"
    value = header.metadata.get(key)
    if value is not None and not isinstance(value, int | float):
        raise EdgespecError(f"{header.path}: {key} is {shortened(value)}, not a number")
    return value


def _yarn(header: GgufHeader, arch: str, factor: float) -> JsonObject:
    """The settings of YaRN besides the factor.

    Raises:
        EdgespecError: one that is no number, or that versions of llama.cpp apply differently.
    """
    stated = {name: _setting(header, arch, name) for name in (*_UNSETTLED, *_AMPLITUDES, *_YARN)}
    found = {name: value for name, value in stated.items() if value is not None}
    for name in _AMPLITUDES:
        if name in found and not _is_usual(name, found[name], factor):
            raise _unsettled(header, f"{arch}.rope.scaling.{name}", found[name])
    multiplier = found.pop("yarn_log_multiplier", 0.0) if arch == _DIVIDES_AMPLITUDES else 0.0
    for name in _UNSETTLED.keys() & found.keys():
        if found[name] not in _UNSETTLED[name]:
            raise _unsettled(header, f"{arch}.rope.scaling.{name}", found[name])
    settings: JsonObject = {_YARN[name]: found[name] for name in _YARN if name in found}
    if multiplier:
        settings |= {"mscale": multiplier, "mscale_all_dim": multiplier}
    return settings


def _is_usual(name: str, value: float, factor: float) -> bool:
    """Whether a file states the amplitude that transformers computes.

    OLMo 3's do. DeepSeek's have its reciprocal, of a key that transformers does not read.
    """
    usual = 0.1 * math.log(factor) + 1
    settled = [usual, 1 / usual] + [1.0] * (name == "attn_factor")
    return any(math.isclose(value, one, rel_tol=1e-6) for one in settled)


def _unsettled(header: GgufHeader, key: str, value: float | None) -> EdgespecError:
    return EdgespecError(
        f"{header.path}: {key} = {shortened(value)}, which versions of llama.cpp apply "
        "differently; take the model's safetensors"
    )


def _longrope(header: GgufHeader, arch: str) -> JsonObject:
    """Both lists of factors. The amplitude is stated where it does not follow from the lengths."""
    short, long = (rope_factors(header, name) for name in (_SHORT, _LONG))
    lengths = [
        header.metadata.get(f"{arch}.{key}")
        for key in ("context_length", "rope.scaling.original_context_length")
    ]
    found: JsonObject = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
    longest, trained = (value if isinstance(value, int) else 0 for value in lengths)
    amplitude = _setting(header, arch, "attn_factor")
    if amplitude is None:
        return found
    usual = 1.0
    if longest > trained > 1:
        usual = math.sqrt(1 + math.log(longest / trained) / math.log(trained))
    return (
        found
        if math.isclose(amplitude, usual, rel_tol=1e-6)
        else {
            **found,
            "attention_factor": amplitude,
        }
    )


def rope_factors(header: GgufHeader, name: str) -> list[JsonValue]:
    """The numbers of a float32 tensor, as shortest decimals."""
    tensor = header.tensors[name]
    if tensor.kind.name != "F32" or len(tensor.shape) != 1:
        raise EdgespecError(
            f"{header.path}: {name} is {tensor.kind.name} {list(tensor.shape)}, not a list in F32"
        )
    stored = np.fromfile(tensor.file, "<f4", tensor.shape[0], offset=tensor.offset)
    return [float(str(value)) for value in stored]


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
