"""Claim: products with 4-bit weights that expand to 8 bits are those of the 8-bit weights, bit by
bit.

w[i, o] = code[i, o] · step[group of i, o] + offset[group of i, o], and y is what `Int8MatMul` makes
of w.
"""

from __future__ import annotations

import numpy as np
import pytest

from depth import one_in
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int4_int8_ops import (
    HADAMARD_INT4_INT8_MATMUL,
    INT4_INT8_MATMUL,
    RMS_NORM_HADAMARD_INT4_INT8_MATMUL,
    RMS_NORM_INT4_INT8_MATMUL,
)
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.quantization.hadamard import hadamard
from operator_calls import int4_int8_weights_of, rows_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

SHAPES = [(64, 48), (576, 200), (1536, 33), (32, 1), (96, 31)]  # in, out
NORMED, ROTATED = {"epsilon": 1e-5}, {"blocks": [-1, 32], "rows": [-1, 96]}
# The product of 4-bit weights, that of 8-bit ones, and the attributes of both.
PRODUCTS = [
    (INT4_INT8_MATMUL, INT8_MATMUL, {}),
    (RMS_NORM_INT4_INT8_MATMUL, RMS_NORM_INT8_MATMUL, {**NORMED, "step": 4 / 127}),
    (HADAMARD_INT4_INT8_MATMUL, HADAMARD_INT8_MATMUL, ROTATED),
    (RMS_NORM_HADAMARD_INT4_INT8_MATMUL, RMS_NORM_HADAMARD_INT8_MATMUL, {**NORMED, **ROTATED}),
]


def expanded(weights, steps, offsets, scale):
    """The 8-bit weights [in, out] and their scale."""
    codes = np.stack([weights & 15, weights >> 4], axis=-1).reshape(*steps.shape, GROUP)
    whole = codes.astype(np.int64) * steps[:, :, None] + offsets[:, :, None]
    assert np.abs(whole).max() <= 128
    flat = whole.reshape(len(weights), -1).astype(np.int8)
    return {"weights": np.ascontiguousarray(flat.T), "scale": scale}


@one_in(2)
@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 6, 7, 12, 13, 17, 40])
def test_a_product_has_the_bits_of_that_of_the_8_bit_weights(called, rng, width, out, count):
    x, fixed = {"x": rows_of(rng, count, width)}, int4_int8_weights_of(rng, width, out)
    (ours,) = called(INT4_INT8_MATMUL, x, fixed)
    (theirs,) = called(INT8_MATMUL, x, expanded(**fixed))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("ours", "theirs", "attributes"), PRODUCTS)
def test_so_has_one_of_normed_or_rotated_rows(called, rng, ours, theirs, attributes):
    x, fixed = {"x": rows_of(rng, 9, 96)}, int4_int8_weights_of(rng, 96, 40)
    others = {
        "norm": rng.uniform(0.5, 2, 96).astype(np.float32),
        "hadamard": hadamard(32),
    }
    others = {name: value for name, value in others.items() if name in ours.inputs}
    (y,) = called(ours, x, fixed | others, **attributes)
    (expected,) = called(theirs, x, expanded(**fixed) | others, **attributes)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["weights", "steps", "offsets", "scale"])
def test_every_part_of_a_weight_is_read(called, rng, name):
    x, fixed = {"x": rows_of(rng, 9, 64)}, int4_int8_weights_of(rng, 64, 48)
    fixed["offsets"] = np.full_like(fixed["offsets"], -127) + (fixed["offsets"] & 1)
    (before,) = called(INT4_INT8_MATMUL, x, fixed)
    (after,) = called(INT4_INT8_MATMUL, x, fixed | {name: fixed[name][::-1].copy()})
    assert (before != after).any()


def test_the_last_code_of_the_largest_step_is_127_and_the_first_one_is_minus_128(called, rng):
    fixed = int4_int8_weights_of(rng, 64, 32)
    fixed["steps"][:], fixed["offsets"][:] = 17, -128
    fixed["weights"][:, :, :8], fixed["weights"][:, :, 8:] = 0xFF, 0x00
    assert set(np.unique(expanded(**fixed)["weights"])) == {-128, 127}
    x = {"x": rows_of(rng, 5, 64)}
    (ours,) = called(INT4_INT8_MATMUL, x, fixed)
    (theirs,) = called(INT8_MATMUL, x, expanded(**fixed))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_row_does_not_depend_on_the_others(called, rng, width, out):
    x, fixed = rows_of(rng, 40, width), int4_int8_weights_of(rng, width, out)
    (all_rows,) = called(INT4_INT8_MATMUL, {"x": x}, fixed)
    for count in (*range(1, 18), 33):
        (some,) = called(INT4_INT8_MATMUL, {"x": x[:count]}, fixed)
        np.testing.assert_array_equal(some, all_rows[:count])


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_a_product_differs_from_its_body_by_rounding(called, rng, width, out):
    x, fixed = {"x": rows_of(rng, 9, width)}, int4_int8_weights_of(rng, width, out)
    (ours,) = called(INT4_INT8_MATMUL, x, fixed)
    (theirs,) = called(INT4_INT8_MATMUL, x, fixed, kernel=False)
    largest = np.abs(theirs).max(axis=1, keepdims=True)
    assert (np.abs(ours - theirs) <= 1e-5 * largest).all()


def test_a_weight_beyond_8_bits_is_refused(called, rng):
    fixed = int4_int8_weights_of(rng, 64, 48)
    fixed["steps"][5, 1], fixed["offsets"][5, 1] = 16, -112
    said = "the offset -112, so that weights reach 128; 8 bits hold up to 127"
    with pytest.raises(EdgespecError, match=said):
        called(INT4_INT8_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed)


def test_a_scale_that_is_not_finite_is_refused(called, rng):
    fixed = int4_int8_weights_of(rng, 64, 48)
    fixed["scale"][5] = np.inf
    with pytest.raises(EdgespecError, match=r"scale\[5\] is inf"):
        called(INT4_INT8_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed)


def test_groups_of_another_size_are_refused(called, rng):
    fixed = int4_int8_weights_of(rng, 64, 48)
    fixed["weights"] = fixed["weights"][:, :, :8].copy()
    with pytest.raises(EdgespecError, match="groups have 8 bytes; the kernel takes 16"):
        called(INT4_INT8_MATMUL, {"x": rows_of(rng, 2, 64)}, fixed)
