"""Rounding matrices to whole numbers of few bits with scales."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["pack_codes", "per_block", "per_channel", "per_row", "side_by_side"]

Float = npt.NDArray[np.float32]


def per_channel(matrix: Float) -> tuple[npt.NDArray[np.int8], Float]:
    """A matrix [out, in] as int8 [in, out] and the scale of each output channel [out]."""
    rounded, scale = per_row(matrix)
    return np.ascontiguousarray(rounded.T), scale


def side_by_side(matrices: Iterable[Float]) -> tuple[npt.NDArray[np.int8], Float]:
    """`per_channel` of several matrices [out, in], as one matrix [in, Σ out]."""
    rounded, scales = zip(*map(per_channel, matrices), strict=True)
    return np.concatenate(rounded, axis=1), np.concatenate(scales)


def per_row(matrix: Float) -> tuple[npt.NDArray[np.int8], Float]:
    """A matrix as int8, and the scale of each row."""
    scale = np.maximum(np.abs(matrix).max(axis=1) / np.float32(127), np.float32(1e-30))
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


def per_block(
    matrix: Float, bits: int, block: int
) -> tuple[npt.NDArray[np.uint8], Float, npt.NDArray[np.uint8]]:
    """A matrix [out, in] in the layout of `MatMulNBits`.

    Returns blocks [out, blocks, block · bits / 8], scales [out · blocks] and zero points
    [out · blocks · bits / 8]; with 4 bits the first of two numbers is in the lower half of a byte.
    """
    out, width = matrix.shape
    blocks = -(-width // block)
    padded = np.zeros((out, blocks * block), np.float32)
    padded[:, :width] = matrix
    grouped = padded.reshape(out, blocks, block)
    low = np.minimum(grouped.min(axis=2), 0)
    high = np.maximum(grouped.max(axis=2), 0)
    levels = 2**bits - 1
    scale = np.maximum((high - low) / np.float32(levels), np.float32(1e-30))
    zero = np.rint(-low / scale).clip(0, levels)
    values = np.rint(grouped / scale[:, :, None] + zero[:, :, None]).clip(0, levels)
    return (
        _packed(values.astype(np.uint8), bits),
        scale.reshape(-1).astype(np.float32),
        _packed(zero.astype(np.uint8), bits).reshape(-1),
    )


def _packed(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Packs two numbers of 4 bits into a byte along the last axis, padded to an even length."""
    if bits == 8:
        return values
    if values.shape[-1] % 2:
        padding = np.zeros((*values.shape[:-1], 1), np.uint8)
        values = np.concatenate([values, padding], axis=-1)
    packed: npt.NDArray[np.uint8] = values[..., ::2] | (values[..., 1::2] << np.uint8(4))
    return packed


def pack_codes(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Codes from 0 to 15, two in a byte along the last axis, the first in its lower half."""
    return _packed(codes, 4)
