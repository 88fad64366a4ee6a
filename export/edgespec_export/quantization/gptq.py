"""Rounding to 4 bits: scales by search, and codes whose errors later weights take up (GPTQ).

A product computes X · wᵀ. Rounding w to v costs |X (w − v)ᵀ|² = (w − v) H (w − v)ᵀ with the second
moments H = XᵀX of its inputs. Frantar et al. (2022, arXiv 2210.17323) round one input after the
other and move the others, so that they take up the error: with the Cholesky factor U of the inverse
of H, the error e of input i adds −e · U[i, j] / U[i, i] to each later weight j. Everything here is
numpy; one matrix is in memory at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec_export.quantization.rounding import pack_codes

__all__ = ["DAMPING", "Rounded", "nearest", "weighted_error", "with_error_feedback"]

Float = npt.NDArray[np.float32]
Rounded = tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]

DAMPING = 0.01  # of the mean second moment, added to each: moments of few rows are singular
LOWEST, HIGHEST = -8, 7  # what a code stands for
# Scales that are tried, as shares of the one that maps the farthest number to the end of the range.
SHARES = np.linspace(0.7, 1.05, 8, dtype=np.float32)


def nearest(matrix: Float, group: int) -> Rounded:
    """A matrix [out, in] in groups: packed codes [out, groups, group / 2], scales [out, groups]."""
    out = len(matrix)
    columns = matrix.reshape(out, -1, group)
    scale = _scales(columns, np.ones(group, np.float32))
    codes = _codes(columns, scale[:, :, None])
    return pack_codes(codes.reshape(out, -1, group)), scale.astype(np.float16)


def with_error_feedback(matrix: Float, moments: Float, group: int) -> Rounded:
    """`nearest`, but each input's error is taken up by the inputs after it.

    Args:
        moments: XᵀX of the product's inputs, [in, in].
    """
    out, width = matrix.shape
    factor = _inverse_factor(moments)
    rest = np.array(matrix.T, np.float32, order="C")  # [in, out]
    codes = np.empty((width, out), np.int8)
    scales = np.empty((width // group, out), np.float32)
    for index, first in enumerate(range(0, width, group)):
        block = slice(first, first + group)
        within = factor[block, block]
        importance = np.diag(within) ** np.float32(-2)
        scales[index] = _scales(np.ascontiguousarray(rest[block].T)[:, None], importance)[:, 0]
        errors = np.empty((group, out), np.float32)
        for i, weights in enumerate(rest[block]):
            codes[first + i] = _codes(weights, scales[index])
            errors[i] = (weights - codes[first + i] * scales[index]) / within[i, i]
            rest[first + i + 1 : block.stop] -= np.outer(within[i, i + 1 :], errors[i])
        rest[block.stop :] -= factor[block, block.stop :].T @ errors
    grouped = codes.T.reshape(out, -1, group)
    return pack_codes(grouped), np.ascontiguousarray(scales.T).astype(np.float16)


def weighted_error(difference: Float, moments: Float) -> float:
    """|X · differenceᵀ|² for a difference of weights [out, in]."""
    return float(np.sum((difference @ moments) * difference, dtype=np.float64))


def _codes(weights: Float, scale: Float) -> npt.NDArray[np.int8]:
    step = np.where(scale == 0, np.float32(1), scale)
    return np.rint(weights / step).clip(LOWEST, HIGHEST).astype(np.int8)


def _scales(columns: Float, importance: Float) -> Float:
    """The scale of each group [out, groups, group] with the least squared error, as float16 has it.

    The farthest number becomes −8 steps at the share 1: the range is wider on that side.
    """
    at = np.abs(columns).argmax(axis=2)[:, :, None]
    farthest = np.take_along_axis(columns, at, axis=2)[:, :, 0]
    best = np.zeros(farthest.shape, np.float32)
    least = np.full(farthest.shape, np.inf, np.float32)
    for end in (LOWEST, HIGHEST):
        for share in SHARES:
            scale = (farthest * (share / end)).astype(np.float16).astype(np.float32)
            error = columns - _codes(columns, scale[:, :, None]) * scale[:, :, None]
            cost = (error * error) @ importance
            better = cost < least
            best[better], least[better] = scale[better], cost[better]
    return best


def _inverse_factor(moments: Float) -> Float:
    """U, upper triangular, with UᵀU = inverse of the damped moments."""
    damped = moments.astype(np.float64)
    damped[np.diag_indices_from(damped)] += DAMPING * np.diag(damped).mean() + 1e-12
    inverse = np.linalg.inv(damped)
    return np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2).T, np.float32)
