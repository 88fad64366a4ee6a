"""Matrices of float8 or int8 with scales of the whole matrix, of rows, or of blocks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.quantized.matrix import Blocks, Parts, modules

__all__ = ["of_activations", "scaled_matrix"]

# What activations and the cache are rounded to elsewhere; here they stay as they are.
OF_ACTIVATIONS = (
    *("activation_scale", "input_scale", "input_scale_ub", "input_zero_point"),
    *("output_scale", "output_zero_point", "q_scale", "k_scale", "v_scale", "kv_scale"),
)
EXPONENT = "U8"  # scales stored as the exponent of 2, plus 127


def scaled_matrix(
    parts: Parts, weight: str, scale: str, zero: str, block: tuple[int, int] | None = None
) -> Blocks:
    """A matrix stored as `weight`, [out, in].

    Args:
        scale: [] or [1], [out] or [out, 1], or one of each block.
        zero: of the zero points, shaped like the scales; there may be none.
        block: rows and columns of a block; None where they follow from the number of scales.

    Raises:
        EdgespecError: the scales do not fit the weights.
    """
    out, width = parts.shape(weight)
    grid = _grid(parts.shape(scale), out)
    rows, columns = _block((out, width), grid, block, weight)
    has_zeros = zero in parts
    return Blocks(
        shape=(out, width),
        codes=partial(parts.read_part, weight),
        scales=lambda: _scales(parts, scale).reshape(grid),
        zeros=(lambda: parts.read_part(zero).reshape(grid)) if has_zeros else None,
        block_rows=rows,
        columns=np.arange(width) // columns,
    )


def of_activations(parts: Parts) -> set[str]:
    """Names of tensors that say how activations or the cache are rounded."""
    return {f"{name}.{part}" for part in OF_ACTIVATIONS for name in modules(parts, part)}


def _grid(shape: tuple[int, ...], out: int) -> tuple[int, int]:
    """Blocks down and across."""
    if math.prod(shape) == 1:
        return 1, 1
    if shape == (out,):
        return out, 1
    return (shape[0], shape[1]) if len(shape) == 2 else (0, 0)


def _block(
    shape: tuple[int, int], grid: tuple[int, int], block: tuple[int, int] | None, name: str
) -> tuple[int, int]:
    """Rows and columns of a block; where their sizes are known, the last may be cut off."""
    out, width = shape
    down, across = grid
    if block is not None and grid not in ((1, 1), (out, 1)):
        if (-(-out // block[0]), -(-width // block[1])) == grid:
            return block
    elif down > 0 and across > 0 and out % down == 0 and width % across == 0:
        return out // down, width // across
    raise EdgespecError(f"and the scales of {name} do not fit it")


def _scales(parts: Parts, name: str) -> npt.NDArray[Any]:
    values = parts.read_part(name)
    if parts.dtype(name) != EXPONENT:
        return values.astype(np.float32)
    return np.asarray(np.exp2(values.astype(np.float32) - np.float32(127)))
