"""Claim: products with 4-bit weights are what their definition says, bit by bit.

y[r, o] = acc · row_scale[r], with acc = fma(Σ over the group of x · (code − 8), scale, acc)
over the groups in order
"""

from __future__ import annotations

import numpy as np
import pytest

from depth import one_in
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int4_ops import INT4_MATMUL, RMS_NORM_INT4_MATMUL
from operator_calls import int4_weights_of, rows_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

SHAPES = [(64, 48), (576, 200), (1536, 33), (32, 1)]  # in, out


def defined_product(x, weights, scale, minimum):
    """The definition. Each step is computed in long doubles and rounded to float32 once."""
    y = np.zeros((len(x), len(weights)), np.float32)
    codes = np.stack([weights & 15, weights >> 4], axis=-1).reshape(len(weights), -1, GROUP)
    for group in range(codes.shape[1]):
        inputs = x[:, group * GROUP : (group + 1) * GROUP]
        step = np.abs(inputs).max(axis=1, keepdims=True) * np.float32(1 / 127)
        step = np.maximum(step, np.float32(1e-30))
        whole = np.rint(inputs / step).clip(-128, 127).astype(np.int64)
        sums = (whole @ codes[:, group].astype(np.int64).T).astype(np.float32)
        scaled = sums * scale[:, group].astype(np.float32)
        total = whole.sum(axis=1, keepdims=True).astype(np.longdouble)
        weighted = (total * minimum[:, group].astype(np.longdouble) + scaled).astype(np.float32)
        y = (weighted * step.astype(np.longdouble) + y).astype(np.float32)
    return y


@one_in(2)
@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 13, 40])
def test_a_product_has_the_bits_of_its_definition(called, rng, width, out, count):
    x, fixed = rows_of(rng, count, width), int4_weights_of(rng, width, out)
    sizes = {"k": width, "n": out}
    (y,) = called(INT4_MATMUL, {"x": x}, fixed, **sizes)
    np.testing.assert_array_equal(y, defined_product(x, **fixed))


@pytest.mark.parametrize("name", ["weights", "scale", "minimum"])
def test_the_definition_reads_all_of_a_group(called, rng, name):
    x, fixed = rows_of(rng, 9, 64), int4_weights_of(rng, 64, 48)
    (y,) = called(INT4_MATMUL, {"x": x}, fixed, k=64, n=48)
    other = fixed | {name: fixed[name][::-1]}
    assert (y != defined_product(x, **other)).any()


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


def test_a_product_of_normed_rows_is_near_its_body(called, rng):
    x = {"x": rows_of(rng, 9, 64)}
    fixed = {"norm": rng.uniform(0.5, 2, 64).astype(np.float32)} | int4_weights_of(rng, 64, 48)
    attributes = {"epsilon": 1e-5, "k": 64, "n": 48}
    (ours,) = called(RMS_NORM_INT4_MATMUL, x, fixed, **attributes)
    (theirs,) = called(RMS_NORM_INT4_MATMUL, x, fixed, kernel=False, **attributes)
    # A number in the middle between two whole ones may be rounded either way; few are.
    close = np.isclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    assert close.mean() > 0.8


@pytest.mark.parametrize("place", [0, 40])
def test_a_row_with_nan_gives_nan(called, rng, place):
    x = rows_of(rng, 5, 64)
    x[3, place] = np.nan
    (y,) = called(INT4_MATMUL, {"x": x}, int4_weights_of(rng, 64, 48), k=64, n=48)
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, axis=0)).all()


@pytest.mark.parametrize("name", ["scale", "minimum"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_scale_that_is_not_finite_is_refused(called, rng, name, number):
    fixed = int4_weights_of(rng, 64, 48)
    fixed[name][5, 1] = number
    with pytest.raises(EdgespecError, match=rf"{name}\[5, 1\] is NaN or infinite"):
        called(INT4_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed, k=64, n=48)


def test_groups_of_another_size_are_refused(called, rng):
    weights = rng.integers(0, 256, (48, 2, 8), dtype=np.uint8)
    ones = np.ones((48, 2), np.float16)
    fixed = {"weights": weights, "scale": ones, "minimum": ones}
    with pytest.raises(EdgespecError, match="groups have 8 bytes; the kernel takes 16"):
        called(INT4_MATMUL, {"x": rows_of(rng, 2, 32)}, fixed, k=32, n=48)
