"""FP8: float8 weights with a scale for blocks of 128 × 128, for rows, or for the matrix.

`weight` float8 [out, in] with `weight_scale_inv` (of DeepSeek, Qwen3 and Ministral 3) or
`weight_scale` (FBGEMM); a weight is their product. Scales of activations are not needed: these stay
in full precision.
"""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.matrix import Found, Parts, modules
from edgespec_export.checkpoint.quantized.scaled import of_activations, scaled_matrix

__all__ = ["find_fp8"]

SCALES = ("weight_scale_inv", "weight_scale")
FLOAT8 = ("F8_E4M3", "F8_E5M2")


def find_fp8(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of an FP8 checkpoint.

    Raises:
        EdgespecError: weights of another type, or scales that do not fit.
    """
    block = _block(settings)
    matrices = {}
    used: set[str] = set()
    for mark in SCALES:
        for name in modules(parts, mark):
            weight, scale = f"{name}.weight", f"{name}.{mark}"
            if parts.dtype(weight) not in FLOAT8:
                raise EdgespecError(f"and {weight} is stored as {parts.dtype(weight)}")
            matrices[weight] = scaled_matrix(parts, weight, scale, f"{name}.zero_point", block)
            used.add(scale)
    return Found(matrices, frozenset(used | of_activations(parts)))


def _block(settings: JsonObject) -> tuple[int, int] | None:
    size = settings.get("weight_block_size")
    match size:
        case None:
            return None
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
    raise EdgespecError(f"with weight_block_size = {shortened(size)}")
