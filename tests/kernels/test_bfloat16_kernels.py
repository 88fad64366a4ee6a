"""Claim: products in bfloat16 are what their definition says, bit by bit.

Rows and weights are bfloat16, rows rounded half to even. Of each 32 inputs, padded with zeros, in
order:

    even = fma(x[2i], w[2i], even), odd = fma(x[2i + 1], w[2i + 1], odd)   i = 0 … 15, from 0
    y = y + (even + odd)

That is the order of AMX's TDPBF16PS, by Intel's manual; other processors follow it.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from depth import one_in
from edgespec_export.operators.half_ops import (
    BFLOAT16_ROW_MATMUL,
    RMS_NORM_BFLOAT16_ROW_MATMUL,
)
from edgespec_export.operators.norm_ops import RMS_NORM
from operator_calls import MANY, has_kernel, rows_of

pytestmark = pytest.mark.skipif(
    not has_kernel(BFLOAT16_ROW_MATMUL), reason="there are no such kernels here"
)

BFLOAT16 = ml_dtypes.bfloat16
SHAPES = [(64, 48), (576, 200), (1536, 33), (100, 31), (31, 1), (1, 3)]  # in, out
LEAST_INPUT, LEAST_WEIGHT = 2.0**-60, 2.0**-52  # smaller numbers count as 0


def rounded_to_odd(x, y):
    """x + y of float64, such that rounding it to float32 later is the only rounding: where the sum
    is not exact, its last bit is 1. Boldo and Melquiond (2008)."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    inexact = (error != 0) & (total.view(np.int64) & 1 == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, (total.view(np.int64) + toward).view(np.float64), total)


def fma(a, b, c):
    """a · b + c of float32 numbers, rounded once; a and b are bfloat16 numbers, so that their
    product is exact in float64."""
    return rounded_to_odd(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)


def defined_product(x, weights, *, block=32, chains=2, order=1):
    """The definition, for [m, k] and [n, k] in float32 that are bfloat16 numbers."""
    padding = ((0, 0), (0, -x.shape[1] % block))
    x, weights = np.pad(x, padding), np.pad(weights, padding)
    y = np.zeros((len(x), len(weights)), np.float32)
    for start in range(0, x.shape[1], block):
        sums = np.zeros((chains, *y.shape), np.float32)
        for i in range(start, start + block)[::order]:
            chain = i % chains
            sums[chain] = fma(x[:, i, None], weights[:, i], sums[chain])
        y = y + sums.sum(axis=0, dtype=np.float32)
    return y


def bfloat16_rows(x):
    """Rows as products read them."""
    return np.where(np.abs(x) < LEAST_INPUT, 0, x).astype(BFLOAT16).astype(np.float32)


def weights_of(rng, width, out):
    """Weights of very different sizes."""
    weights = rng.normal(size=(out, width)) * 10.0 ** rng.integers(-7, 3, (out, 1))
    return {"weights": weights.astype(BFLOAT16)}


@one_in(3)
@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 3, 4, 13, 16, 17, 32, MANY])
def test_a_product_has_the_bits_of_its_definition(called, rng, width, out, count):
    x, fixed = rows_of(rng, count, width), weights_of(rng, width, out)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, fixed)
    expected = defined_product(bfloat16_rows(x), fixed["weights"].astype(np.float32))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "other",
    [{"block": 16}, {"block": 64}, {"chains": 1}, {"chains": 4}, {"order": -1}],
    ids=str,
)
def test_the_definition_says_the_order_of_additions(called, rng, other):
    """Blocks of another size, one chain or four, or the last input first give other bits."""
    x, fixed = rows_of(rng, 9, 576), weights_of(rng, 576, 48)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, fixed)
    changed = defined_product(bfloat16_rows(x), fixed["weights"].astype(np.float32), **other)
    assert (y != changed).mean() > 0.1
    np.testing.assert_allclose(y, changed, atol=1e-5 * np.abs(changed).max(), rtol=0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("width", "out"), [(576, 1500), (100, 33)])
def test_a_row_does_not_depend_on_the_others(called, rng, width, out, threads):
    x, fixed = rows_of(rng, MANY, width), weights_of(rng, width, out)
    x[20, 5] = np.nan
    (all_rows,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, fixed)
    assert np.isnan(all_rows[20]).all()
    assert np.isfinite(np.delete(all_rows, 20, axis=0)).all()
    for count in range(MANY):
        (some,) = called(BFLOAT16_ROW_MATMUL, {"x": x[:count]}, fixed, threads=threads)
        np.testing.assert_array_equal(some, all_rows[:count])


def test_numbers_halfway_between_two_are_rounded_to_the_even_one(called):
    x = np.array([[1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 3.4e38]], np.float32)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, {"weights": np.eye(4, dtype=BFLOAT16)})
    # 3.4e38 is infinite in bfloat16, and infinity times 0 is NaN.
    np.testing.assert_array_equal(y, [[np.nan, np.nan, np.nan, np.inf]])
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x[:, :3]}, {"weights": np.eye(3, dtype=BFLOAT16)})
    np.testing.assert_array_equal(y, [[1, 1 + 2.0**-6, 1 + 2.0**-7]])


@pytest.mark.parametrize("count", [1, MANY])
def test_no_sum_is_subnormal(called, count):
    """Some instructions take subnormal numbers for 0, and others do not."""
    x = np.full((count, 2), LEAST_INPUT, np.float32)
    weights = np.array([[LEAST_WEIGHT, 0], [LEAST_WEIGHT / 2, 0]], BFLOAT16)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, {"weights": weights})
    np.testing.assert_array_equal(y, [[2.0**-112, 0]] * count)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x / 2}, {"weights": weights})
    np.testing.assert_array_equal(y, np.zeros((count, 2)))
    # The smallest difference of two products is the smallest normal number.
    x = np.array([[LEAST_INPUT * (1 + 2.0**-7), -LEAST_INPUT * (1 + 2.0**-6)]] * count, np.float32)
    weights = np.array([[LEAST_WEIGHT * (1 + 2.0**-7), LEAST_WEIGHT]], BFLOAT16)
    (y,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, {"weights": weights})
    np.testing.assert_array_equal(y, np.full((count, 1), np.finfo(np.float32).tiny))


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_product_differs_from_its_body_by_rounding(called, rng, width, out):
    x, fixed = rows_of(rng, 9, width), weights_of(rng, width, out)
    (ours,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, fixed)
    (theirs,) = called(BFLOAT16_ROW_MATMUL, {"x": x}, fixed, kernel=False)
    size = np.abs(x) @ np.abs(fixed["weights"].astype(np.float32)).T
    assert (np.abs(ours - theirs) <= 2e-6 * np.sqrt(width) * size).all()


def test_a_product_of_normed_rows_has_the_bits_of_both_operators(called, rng):
    x, fixed = rows_of(rng, 9, 96), weights_of(rng, 96, 70)
    x[3, 7] = np.inf
    norm = {"norm": rng.uniform(0.5, 2, 96).astype(np.float32)}
    (ours,) = called(RMS_NORM_BFLOAT16_ROW_MATMUL, {"x": x}, norm | fixed, epsilon=1e-5)
    (normed,) = called(RMS_NORM, {"x": x} | norm, {}, epsilon=1e-5)
    (theirs,) = called(BFLOAT16_ROW_MATMUL, {"x": normed}, fixed)
    np.testing.assert_array_equal(ours, theirs)
    assert np.isnan(ours[3]).all()
