"""Weights that are on a grid of 16 steps already: those that another program rounded to 4 bits.

Nothing says so but the weights themselves, so that it does not matter which program it was, or
which rows of which matrices were put together. Exact grids are found by the greatest common divisor
of the differences of a group's weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec_export.quantization.gptq import (
    HIGHEST,
    Rounded,
    joined,
    rounded_on,
    row_blocks,
    to_codes,
)

__all__ = ["OnGrid", "on_grid"]

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

WHOLE = 2.0**40  # a step is found among differences of at most so many units
DIVISORS = (1, 2, 3, 5, 7)  # of a step, where all codes of a group have one of them
NEAR = 1 / 32  # of a step: the most that a weight may move, a sixteenth of what rounding moves it


class OnGrid(NamedTuple):
    """A matrix whose groups all are on a grid.

    Attributes:
        is_exact: every weight is kept. If not, float16 does not have some of the minimums: weights
            keep their codes, and move by at most `NEAR` of a step.
    """

    rounded: Rounded
    is_exact: bool


def on_grid(matrix: Float, group: int) -> OnGrid | None:
    """A matrix [out, in] with all groups on grids that it is on already; None for others.

    Found are grids whose first and last code are used, as GGUF's Q4_1 has them, those with 8 steps
    to the farthest weight, as Q4_0, and those of any step and zero point (AWQ, GPTQ, MLX,
    compressed-tensors), whose groups may be larger.
    """
    parts = []
    for rows in row_blocks(matrix):
        part = _rows_on_grid(rows, group)
        if part is None:
            return None
        parts.append(part)
    return OnGrid(joined([part.rounded for part in parts]), all(part.is_exact for part in parts))


def _rows_on_grid(rows: Float, group: int) -> OnGrid | None:
    columns = rows.reshape(len(rows), -1, group).astype(np.float64)
    low, high = columns.min(axis=2), columns.max(axis=2)
    farthest = np.where(-low >= high, low, high)
    scale, minimum = _halves((high - low) / HIGHEST, low)
    exact = _error(columns, scale, minimum) == 0
    others = _halves(farthest / -8, farthest)
    scale, minimum = np.where(exact, scale, others[0]), np.where(exact, minimum, others[1])
    rest = _error(columns, scale, minimum) > 0
    if rest.any():
        found = _divided(columns[rest], low[rest], high[rest])
        if found is None:
            return None
        scale[rest], minimum[rest] = found
    error = _error(columns, scale, minimum)
    if (error > NEAR * np.abs(scale)).any():
        return None
    return OnGrid(rounded_on(columns, scale, minimum), not error.any())


def _halves(scale: Double, minimum: Double) -> tuple[Double, Double]:
    """Both as float16 has them."""
    return scale.astype(np.float16).astype(np.float64), minimum.astype(np.float16).astype(float)


def _error(columns: Double, scale: Double, minimum: Double) -> Double:
    """The farthest that a weight of each group moves; 0 if none does in float32."""
    codes = to_codes(columns, scale[..., None], minimum[..., None])
    weights = codes * scale[..., None] + minimum[..., None]
    moved = np.abs(weights - columns)
    return np.asarray(np.where(weights.astype(np.float32) == columns, 0, moved).max(axis=-1))


def _divided(columns: Double, low: Double, high: Double) -> tuple[Double, Double] | None:
    """Scales and minimums of groups [n, group], by the step of each; None if one has no step."""
    step = _steps(columns - low[:, None])
    levels = np.rint((high - low) / np.where(step == 0, 1, step))
    if (levels > HIGHEST).any():
        return None
    scale = step.astype(np.float16).astype(np.float64)
    for divisor in DIVISORS:
        part = (step / divisor).astype(np.float16).astype(np.float64)
        better = (scale != step) & (part * divisor == step) & (levels * divisor <= HIGHEST)
        scale, levels = np.where(better, part, scale), np.where(better, levels * divisor, levels)
    minimum, least = low, np.full(low.shape, np.inf)
    for before in range(HIGHEST + 1):  # codes before the least one that is used
        wanted = low - before * scale
        tried = wanted.astype(np.float16).astype(np.float64)
        better = (levels + before <= HIGHEST) & (np.abs(tried - wanted) < least)
        least = np.where(better, np.abs(tried - wanted), least)
        minimum = np.where(better, tried, minimum)
    return scale, minimum


def _steps(differences: Double) -> Double:
    """The greatest common divisor of each row; 0 of zeros. Infinite units count as no step."""
    mantissa, exponent = np.frexp(differences)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    unit = np.where(whole == 0, np.inf, lowest).min(axis=1, keepdims=True)
    unit = np.where(np.isinf(unit), 1, unit)
    counted = differences / unit
    counted = np.where(counted.max(axis=1, keepdims=True) > WHOLE, counted != 0, counted)
    return np.asarray(np.gcd.reduce(counted.astype(np.int64), axis=1) * unit[:, 0])
