"""Claim: products with 4-bit weights are what their definition says, bit by bit.

y[r, o] = acc · row_scale[r], with acc = fma(Σ over the group of x · (code − 8), scale, acc)
over the groups in order
"""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.core.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.operators.int4_ops import (
    GROUP,
    HADAMARD_INT4_MATMUL,
    INT4_MATMUL,
    RMS_NORM_INT4_MATMUL,
)
from edgespec_export.quantization.hadamard import hadamard
from operator_calls import rows_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

SHAPES = [(64, 48), (576, 200), (1536, 33), (32, 1)]  # in, out


def int4_weights_of(rng, width, out):
    return {
        "weights": rng.integers(0, 256, (out, width // GROUP, GROUP // 2), dtype=np.uint8),
        "scale": rng.uniform(1e-4, 1e-2, (out, width // GROUP)).astype(np.float16),
    }


def defined_product(x, weights, scale, *, subtracted=8):
    """The definition, in float64 and rounded to float32 after each group; sums stay below 2^53."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    row_scale = np.maximum(largest * np.float32(1 / 127), np.float32(1e-30))
    rows = np.rint(x / row_scale).clip(-128, 127).astype(np.int64)
    codes = np.stack([weights & 15, weights >> 4], axis=-1).astype(np.int64) - subtracted
    y = np.zeros((len(x), len(codes)), np.float32)
    for group in range(codes.shape[1]):
        inputs = rows[:, group * GROUP : (group + 1) * GROUP]
        sums = inputs @ codes[:, group].reshape(len(codes), GROUP).T
        y = (sums * scale[:, group].astype(np.float64) + y).astype(np.float32)
    return y * row_scale


@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 13, 40])
def test_a_product_has_the_bits_of_its_definition(called, rng, width, out, count):
    x, fixed = rows_of(rng, count, width), int4_weights_of(rng, width, out)
    sizes = {"k": width, "n": out}
    (y,) = called(INT4_MATMUL, {"x": x}, fixed, **sizes)
    np.testing.assert_array_equal(y, defined_product(x, **fixed))


def test_the_definition_tells_another_zero_point(called, rng):
    x, fixed = rows_of(rng, 9, 64), int4_weights_of(rng, 64, 48)
    (y,) = called(INT4_MATMUL, {"x": x}, fixed, k=64, n=48)
    assert (y != defined_product(x, **fixed, subtracted=7)).any()


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_row_does_not_depend_on_the_others(called, rng, width, out):
    x, fixed = rows_of(rng, 17, width), int4_weights_of(rng, width, out)
    (all_rows,) = called(INT4_MATMUL, {"x": x}, fixed, k=width, n=out)
    for count in range(1, 17):
        (some,) = called(INT4_MATMUL, {"x": x[:count]}, fixed, k=width, n=out)
        np.testing.assert_array_equal(some, all_rows[:count])


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_product_differs_from_its_body_by_rounding(called, rng, width, out):
    x, fixed = {"x": rows_of(rng, 9, width)}, int4_weights_of(rng, width, out)
    (ours,) = called(INT4_MATMUL, x, fixed, k=width, n=out)
    (theirs,) = called(INT4_MATMUL, x, fixed, kernel=False, k=width, n=out)
    largest = np.abs(theirs).max(axis=1, keepdims=True)
    assert (np.abs(ours - theirs) <= 1e-5 * largest).all()


def test_products_of_normed_and_of_rotated_rows_are_near_their_bodies(called, rng):
    x, weights = {"x": rows_of(rng, 9, 64)}, int4_weights_of(rng, 64, 48)
    normed = {"norm": rng.uniform(0.5, 2, 64).astype(np.float32)} | weights
    turned = {"hadamard": hadamard(64)} | weights
    sizes = {"k": 64, "n": 48}
    for function, fixed, attributes in (
        (RMS_NORM_INT4_MATMUL, normed, {"epsilon": 1e-5, "step": 4 / 127}),
        (HADAMARD_INT4_MATMUL, turned, {"blocks": [-1, 64], "rows": [-1, 64]}),
    ):
        (ours,) = called(function, x, fixed, **attributes, **sizes)
        (theirs,) = called(function, x, fixed, kernel=False, **attributes, **sizes)
        # A number in the middle between two whole ones may be rounded either way; few are.
        close = np.isclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
        assert close.mean() > 0.8


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_scale_that_is_not_finite_is_refused(called, rng, scale):
    fixed = int4_weights_of(rng, 64, 48)
    fixed["scale"][5, 1] = scale
    with pytest.raises(EdgespecError, match=r"scale\[5, 1\] is NaN or infinite"):
        called(INT4_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed, k=64, n=48)


def test_groups_of_another_size_are_refused(called, rng):
    weights = rng.integers(0, 256, (48, 2, 8), dtype=np.uint8)
    fixed = {"weights": weights, "scale": np.ones((48, 2), np.float16)}
    with pytest.raises(EdgespecError, match="groups have 8 bytes; the kernel takes 16"):
        called(INT4_MATMUL, {"x": rows_of(rng, 2, 32)}, fixed, k=32, n=48)
