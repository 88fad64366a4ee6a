"""Claim: the kernel of a product computes what its operator's body computes.

If both round rows to the same 8 bits, their results differ by at most the last bit of a factor,
because integer products are exact. Other results differ by rounding.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from depth import one_in
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.operators.half_ops import BFLOAT16_MATMUL, FLOAT16_MATMUL
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.operators.norm_ops import RMS_NORM
from edgespec_export.quantization.hadamard import hadamard
from operator_calls import MANY, rows_of, weights_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")
SHAPES = [(64, 48), (576, 200), (100, 33), (4, 1)]  # in, out


@one_in(2)
@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 8, 9, 17, MANY])
def test_an_int8_product_equals_that_of_the_standard_operators(called, rng, width, out, count):
    x, fixed = {"x": rows_of(rng, count, width)}, weights_of(rng, width, out)
    (ours,) = called(INT8_MATMUL, x, fixed)
    (theirs,) = called(INT8_MATMUL, x, fixed, kernel=False)
    np.testing.assert_allclose(ours, theirs, rtol=2.5e-7, atol=0)


def test_a_product_of_no_rows_has_no_rows(called, rng):
    (y,) = called(INT8_MATMUL, {"x": np.zeros((0, 64), np.float32)}, weights_of(rng, 64, 48))
    assert y.shape == (0, 48)


def test_a_row_with_nan_gives_nan(called, rng):
    x = rows_of(rng, 5, 64)
    x[3, 7] = np.nan
    (y,) = called(INT8_MATMUL, {"x": x}, weights_of(rng, 64, 48))
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, axis=0)).all()


@pytest.mark.parametrize("outlier", [np.nan, np.inf, 1e30])
def test_a_row_without_a_finite_norm_gives_nan(called, rng, outlier):
    x = rng.normal(size=(5, 64)).astype(np.float32)
    x[3, 7] = outlier
    fixed = {"norm": np.ones(64, np.float32)} | weights_of(rng, 64, 48)
    (y,) = called(RMS_NORM_INT8_MATMUL, {"x": x}, fixed, epsilon=1e-5, step=4 / 127)
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, axis=0)).all()


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_product_with_a_norm_differs_from_the_standard_operators_by_rounding(
    called, rng, width, out
):
    """A number in the middle between two of 256 may be rounded either way; few are."""
    x = {"x": rows_of(rng, 9, width)}
    norm = {"norm": rng.uniform(0.5, 2, width).astype(np.float32)}
    fixed = norm | weights_of(rng, width, out)
    attributes = {"epsilon": 1e-5, "step": 4 / 127}
    (ours,) = called(RMS_NORM_INT8_MATMUL, x, fixed, **attributes)
    (theirs,) = called(RMS_NORM_INT8_MATMUL, x, fixed, kernel=False, **attributes)
    largest_step = 4 / 127 * 128 * fixed["scale"]  # what one number rounded otherwise changes
    assert (np.abs(ours - theirs) <= 2.001 * largest_step).all()
    assert (ours == theirs).mean() > 0.8


@pytest.mark.parametrize(
    ("width", "block"), [(64, 64), (1536, 64), (96, 32), (24, 8), (20, 4), (6, 2)]
)
def test_a_rotated_product_differs_from_the_standard_operators_by_rounding(
    called, rng, width, block
):
    x = {"x": rows_of(rng, 9, width)}
    fixed = {"hadamard": hadamard(block)} | weights_of(rng, width, 70)
    attributes = {"blocks": [-1, block], "rows": [-1, width]}
    (ours,) = called(HADAMARD_INT8_MATMUL, x, fixed, **attributes)
    (theirs,) = called(HADAMARD_INT8_MATMUL, x, fixed, kernel=False, **attributes)
    largest = np.abs(x["x"]).max(axis=1, keepdims=True) * np.sqrt(block)
    largest_step = largest / 127 * 128 * fixed["scale"]
    assert (np.abs(ours - theirs) <= 2.001 * largest_step).all()
    assert (np.isclose(ours, theirs, rtol=1e-5, atol=1e-6 * largest)).mean() > 0.6


def test_a_product_of_normed_and_rotated_rows_has_the_bits_of_both_operators(called, rng):
    x = rows_of(rng, 9, 96)
    x[3, 7] = np.inf
    norm = {"norm": rng.uniform(0.5, 2, 96).astype(np.float32)}
    rotation, matrix = {"hadamard": hadamard(32)}, weights_of(rng, 96, 70)
    shapes = {"blocks": [-1, 32], "rows": [-1, 96]}
    fixed = norm | rotation | matrix
    (ours,) = called(RMS_NORM_HADAMARD_INT8_MATMUL, {"x": x}, fixed, epsilon=1e-5, **shapes)
    (normed,) = called(RMS_NORM, {"x": x} | norm, {}, epsilon=1e-5)
    (theirs,) = called(HADAMARD_INT8_MATMUL, {"x": normed}, rotation | matrix, **shapes)
    np.testing.assert_array_equal(ours, theirs)
    assert np.isnan(ours[3]).all()


def test_a_matrix_other_than_hadamards_is_refused(called, rng):
    """The kernel computes the rotation without reading the matrix."""
    other = np.eye(64, dtype=np.float32)
    fixed = {"hadamard": other} | weights_of(rng, 64, 8)
    with pytest.raises(EdgespecError, match="Hadamard"):
        called(
            HADAMARD_INT8_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed, blocks=[-1, 64], rows=[-1, 64]
        )


FORMATS_16_BITS = {
    "fp16": (FLOAT16_MATMUL, np.float16),
    "bf16": (BFLOAT16_MATMUL, ml_dtypes.bfloat16),
}


SHAPES_16_BITS = [(64, 48), (576, 1000), (100, 33), (1024, 17), (4, 1)]  # in, out


def weights_of_16_bits(rng, width, out, dtype):
    """Weights of all magnitudes that 16 bits can represent, subnormal numbers included."""
    weights = rng.normal(size=(out, width)) * 10.0 ** rng.integers(-7, 3, (out, 1))
    return {"weights": weights.astype(dtype)}


@one_in(2)
@pytest.mark.parametrize("kind", FORMATS_16_BITS)
@pytest.mark.parametrize(("width", "out"), SHAPES_16_BITS)
@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 17, MANY])
def test_a_product_with_16_bit_weights_equals_that_of_the_standard_operators(
    called, rng, kind, width, out, count
):
    function, dtype = FORMATS_16_BITS[kind]
    x = {"x": rng.normal(size=(count, width)).astype(np.float32)}
    fixed = weights_of_16_bits(rng, width, out, dtype)
    (ours,) = called(function, x, fixed)
    wide = fixed["weights"].astype(np.float64)
    size = np.abs(x["x"]) @ np.abs(wide).T  # rounding errors are relative to it
    assert (np.abs(ours - x["x"] @ wide.T) <= 1e-6 * np.sqrt(width) * size).all()
    if count:
        (theirs,) = called(function, x, fixed, kernel=False)
        assert (np.abs(ours - theirs) <= 2e-6 * np.sqrt(width) * size).all()


@pytest.mark.parametrize("kind", FORMATS_16_BITS)
def test_a_product_of_small_integers_with_16_bit_weights_is_exact(called, rng, kind):
    """So each weight is used for its own output, and once."""
    function, dtype = FORMATS_16_BITS[kind]
    weights = rng.integers(-128, 129, (77, 203))
    x = rng.integers(-60, 61, (11, 203)).astype(np.float32)
    (y,) = called(function, {"x": x}, {"weights": weights.astype(dtype)})
    np.testing.assert_array_equal(y, x @ weights.T)


@pytest.mark.parametrize("kind", FORMATS_16_BITS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_product_with_16_bit_weights_is_row_invariant(called, rng, kind, threads):
    function, dtype = FORMATS_16_BITS[kind]
    fixed = weights_of_16_bits(rng, 576, 1500, dtype)
    x = rows_of(rng, MANY, 576)
    x[20, 5] = np.nan
    (whole,) = called(function, {"x": x}, fixed)
    assert np.isnan(whole[20]).all()
    assert np.isfinite(np.delete(whole, 20, axis=0)).all()
    for count in range(1, 18):
        (part,) = called(function, {"x": x[3 : 3 + count]}, fixed, threads=threads)
        np.testing.assert_array_equal(part, whole[3 : 3 + count])


def test_rows_that_do_not_fit_16_bit_weights_are_refused(called, rng):
    fixed = weights_of_16_bits(rng, 64, 48, np.float16)
    with pytest.raises(Exception, match=r"x \[m=2, k=63\] and weights \[n=48, k=64\] differ in k"):
        called(FLOAT16_MATMUL, {"x": np.zeros((2, 63), np.float32)}, fixed)
