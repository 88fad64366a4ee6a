"""Rounding to 4 bits: grids by search, and codes whose errors later weights take up (GPTQ).

A group of weights is on the grid code · scale + minimum, with codes from 0 to 15. A product
computes X · wᵀ. Rounding w to v costs |X (w − v)ᵀ|² = (w − v) H (w − v)ᵀ with the second moments
H = XᵀX of its inputs. Frantar et al. (2022, arXiv 2210.17323) round one input after the other and
move the others, so that they take up the error: with the Cholesky factor U of the inverse of H, the
error e of input i adds −e · U[i, j] / U[i, i] to each later weight j. Everything here is numpy; one
matrix is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec_export.quantization.rounding import pack_codes

__all__ = [
    "DAMPING",
    "HIGHEST",
    "GridSearch",
    "Rounded",
    "best_grids",
    "float16_grids",
    "joined",
    "nearest",
    "rounded",
    "rounded_on",
    "row_blocks",
    "to_codes",
    "with_error_feedback",
]

Float = npt.NDArray[np.float32]
# The scale and the minimum of each group [out, groups, group], by the importance of its inputs.
GridSearch = Callable[[Float, Float], tuple[Float, Float]]

DAMPING = 0.01  # of the mean second moment, added to each: moments of few rows are singular
HIGHEST = 15  # code
BLOCK = 2**18  # weights of a block of rows: a megabyte in float32
# Grids that are tried: the share of the range that they cover, and where in it they are.
GRIDS = ((1.0, 0.0), *((share, at) for share in (0.94, 0.88, 0.8) for at in (0.0, 0.5, 1.0)))


class Rounded(NamedTuple):
    """A matrix [out, in] in groups: a weight is code · scale + minimum.

    Attributes:
        codes: uint8 [out, groups, group / 2], two in a byte, the first in its low half.
        scale, minimum: float16 [out, groups].
    """

    codes: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.float16]
    minimum: npt.NDArray[np.float16]


def rounded(matrix: Float, moments: Float | None, group: int, search: GridSearch) -> Rounded:
    """`with_error_feedback` where there are moments; else `nearest`."""
    if moments is None:
        return nearest(matrix, group, search)
    return with_error_feedback(matrix, moments, group, search)


def nearest(matrix: Float, group: int, search: GridSearch) -> Rounded:
    """Each group on the grid with the least squared error, each weight on the nearest code."""
    importance = np.ones(group, np.float32)
    blocks = (rows.reshape(len(rows), -1, group) for rows in row_blocks(matrix))
    return joined([rounded_on(columns, *search(columns, importance)) for columns in blocks])


def with_error_feedback(matrix: Float, moments: Float, group: int, search: GridSearch) -> Rounded:
    """`nearest`, but each input's error is taken up by the inputs after it.

    Args:
        moments: XᵀX of the product's inputs, [in, in].
    """
    out, width = matrix.shape
    factor = _inverse_factor(moments)
    rest = np.array(matrix.T, np.float32, order="C")  # [in, out]
    codes = np.empty((width, out), np.uint8)
    scales = np.empty((width // group, out), np.float32)
    minimums = np.empty_like(scales)
    for index, first in enumerate(range(0, width, group)):
        block = slice(first, first + group)
        within = factor[block, block]
        importance = np.diag(within) ** np.float32(-2)
        scale, minimum = search(np.ascontiguousarray(rest[block].T)[:, None], importance)
        scales[index], minimums[index] = scale[:, 0], minimum[:, 0]
        errors = np.empty((group, out), np.float32)
        for i, weights in enumerate(rest[block]):
            codes[first + i] = to_codes(weights, scales[index], minimums[index])
            on = codes[first + i] * scales[index] + minimums[index]
            errors[i] = (weights - on) / within[i, i]
            rest[first + i + 1 : block.stop] -= np.outer(within[i, i + 1 :], errors[i])
        rest[block.stop :] -= factor[block, block.stop :].T @ errors
    grouped = np.ascontiguousarray(codes.T).reshape(out, -1, group)
    halves = (np.ascontiguousarray(x.T).astype(np.float16) for x in (scales, minimums))
    return Rounded(pack_codes(grouped), *halves)


def row_blocks(matrix: Float) -> Iterator[Float]:
    """Rows that are rounded independently: few enough that what is computed of them stays small."""
    count = max(1, BLOCK // matrix.shape[1])
    yield from (matrix[start : start + count] for start in range(0, len(matrix), count))


def joined(parts: Sequence[Rounded]) -> Rounded:
    """Rows one below the other."""
    codes, scales, minimums = zip(*parts, strict=True)
    return Rounded(np.concatenate(codes), np.concatenate(scales), np.concatenate(minimums))


def rounded_on(
    columns: npt.NDArray[np.floating],
    scale: npt.NDArray[np.floating],
    minimum: npt.NDArray[np.floating],
) -> Rounded:
    """Groups [out, groups, group] with each weight on the nearest code of a grid."""
    codes = to_codes(columns, scale[:, :, None], minimum[:, :, None])
    return Rounded(pack_codes(codes), scale.astype(np.float16), minimum.astype(np.float16))


def to_codes(
    weights: npt.NDArray[np.floating],
    scale: npt.NDArray[np.floating],
    minimum: npt.NDArray[np.floating],
) -> npt.NDArray[np.uint8]:
    """The code nearest to each weight; of three shapes that go together."""
    step = np.where(scale == 0, scale.dtype.type(1), scale)
    return np.rint((weights - minimum) / step).clip(0, HIGHEST).astype(np.uint8)


def float16_grids(columns: Float, importance: Float) -> tuple[Float, Float]:
    """The scale and the minimum of each group [out, groups, group] with the least squared error, as
    float16 has them."""
    low, high = columns.min(axis=2), columns.max(axis=2)
    return best_grids(columns, importance, _tried(low, high - low))


def best_grids(
    columns: Float, importance: Float, grids: Iterable[tuple[Float, Float]]
) -> tuple[Float, Float]:
    """Of some grids, each a scale and a minimum [out, groups] of all groups [out, groups, group],
    each group's with the least squared error."""
    least = np.full(columns.shape[:2], np.inf, np.float32)
    best = np.zeros_like(least), np.zeros_like(least)
    for scale, minimum in grids:
        codes = to_codes(columns, scale[:, :, None], minimum[:, :, None])
        error = columns - codes * scale[:, :, None] - minimum[:, :, None]
        cost = (error * error) @ importance
        better = cost < least
        for found, value in ((best[0], scale), (best[1], minimum), (least, cost)):
            found[better] = value[better]
    return best


def _tried(low: Float, extent: Float) -> Iterator[tuple[Float, Float]]:
    for share, at in GRIDS:
        scale = extent * np.float32(share / HIGHEST)
        minimum = low + extent * np.float32((1 - share) * at)
        yield tuple(x.astype(np.float16).astype(np.float32) for x in (scale, minimum))  # type: ignore[misc]


def _inverse_factor(moments: Float) -> Float:
    """U, upper triangular, with UᵀU = inverse of the damped moments."""
    damped = moments.astype(np.float64)
    damped[np.diag_indices_from(damped)] += DAMPING * np.diag(damped).mean() + 1e-12
    inverse = np.linalg.inv(damped)
    return np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2).T, np.float32)
