"""Claim: a kernel computes what its operator's body computes, and is row-invariant.

Each operator runs twice: by its kernel, and by its body of standard operators. If both round rows
to the same 8 bits, their results differ by at most the last bit of a factor, because integer
products are exact. Other results differ by rounding. The bits of a row's result do not depend on
the other rows of the call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checkpoints import byte_tokenizer, write_llama
from command import run
from edgespec.artifact.graph_io import TOP_K
from edgespec.artifact.manifest import read_manifest
from edgespec.core.distribution import one_hot
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import Sampling
from edgespec.core.verification import residual
from edgespec.core.vocab_ops import NumpyVocabOps, vocab_ops_for
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, _installed, installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import machine_of, open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.operator_parts import CLOSING, POST_NORM_NAMES
from edgespec_export.operators.activations import GATES, RELU
from edgespec_export.operators.attention_ops import ENCODER_ATTENTION, SOURCE_ATTENTION
from edgespec_export.operators.half_ops import BFLOAT16_MATMUL, FLOAT16_MATMUL
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    HADAMARD_ROTATION,
    INT8_EMBEDDING,
    INT8_HEAD,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.operators.norm_ops import RMS_NORM
from edgespec_export.operators.self_attention_ops import SELF_ATTENTION
from edgespec_export.passes.fuse_blocks import FUSED_BLOCKS, fuse_blocks
from edgespec_export.quantization.hadamard import hadamard
from edgespec_runtimes.ort import prefill
from edgespec_runtimes.ort.session import open_session
from operator_calls import add_outputs, int4_weights_of, int8_group_weights_of, one_call, rows_of

SamplingKernels = type(vocab_ops_for(np.zeros(1, np.float32)))

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

BLOCKS = {block.whole.name: block for block in FUSED_BLOCKS}
MANY = 40  # rows: more than one thread prepares, and not a multiple of a tile
SHAPES = [(64, 48), (576, 200), (100, 33), (4, 1)]  # in, out


def weights_of(rng, width, out):
    return {
        "weights": rng.integers(-128, 128, (width, out), dtype=np.int8),
        "scale": rng.uniform(1e-4, 1e-2, out).astype(np.float32),
    }


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


@pytest.mark.parametrize(("width", "block"), [(576, 64), (1024, 512), (96, 32), (4, 4), (3, 1)])
def test_a_rotation_equals_that_of_the_standard_operators(called, rng, width, block):
    inputs, fixed = {"x": rows_of(rng, MANY, width)}, {"hadamard": hadamard(block)}
    attributes = {"blocks": [-1, block], "rows": [-1, width]}
    (ours,) = called(HADAMARD_ROTATION, inputs, fixed, **attributes)
    (theirs,) = called(HADAMARD_ROTATION, inputs, fixed, kernel=False, **attributes)
    largest = np.abs(inputs["x"]).max(axis=1, keepdims=True)
    assert (np.abs(ours - theirs) <= 2e-6 * largest * np.sqrt(block)).all()


def test_an_embedding_equals_that_of_the_standard_operators(called, rng):
    fixed = {name: head_of(rng, 100, 33, 4)[name] for name in ("table", "scale")}
    tokens = {"tokens": np.array([32, 0, 7, 7], np.int64)}
    (ours,) = called(INT8_EMBEDDING, tokens, fixed)
    (theirs,) = called(INT8_EMBEDDING, tokens, fixed, kernel=False)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("token", [-1, 33])
def test_a_token_id_outside_the_embedding_is_refused(called, rng, token):
    fixed = {name: head_of(rng, 100, 33, 4)[name] for name in ("table", "scale")}
    with pytest.raises(Exception, match=rf"token {token} is not in the table of 33 tokens"):
        called(INT8_EMBEDDING, {"tokens": np.array([token], np.int64)}, fixed)


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


# --- The head ----------------------------------------------------------------------------------


def head_of(rng, width, out, block):
    return {
        "norm": rng.uniform(0.5, 2, width).astype(np.float32),
        "hadamard": hadamard(block),
        "table": rng.integers(-128, 128, (out, width), dtype=np.int8),
        "scale": rng.uniform(1e-4, 1e-2, out).astype(np.float32),
    }


@pytest.fixture
def head(called):
    """Logits, tokens and their logits, or these with their probabilities."""

    def call(x, fixed, *, choose, **how):
        width, block = fixed["table"].shape[1], len(fixed["hadamard"])
        attributes = {"epsilon": 1e-5, "blocks": [-1, block], "rows": [-1, width]}
        inputs = {"x": x, "choose": np.array([choose], np.int64)}
        results = called(INT8_HEAD, inputs, fixed, **attributes, **how)
        first, count = ((0, 1), (1, 2), (1, 3))[choose]
        wanted = results[first : first + count]
        rest = results[:first] + results[first + count :]
        assert all(len(rows) == 0 for rows in rest)
        return wanted if choose else wanted[0]

    return call


HEAD_SHAPES = [(64, 48, 64), (512, 300, 512), (576, 200, 64), (100, 33, 4), (4, 1, 1)]


@pytest.mark.parametrize(("width", "out", "block"), HEAD_SHAPES)
def test_a_head_differs_from_the_standard_operators_by_rounding(head, rng, width, out, block):
    x, fixed = rows_of(rng, 9, width), head_of(rng, width, out, block)
    ours = head(x, fixed, choose=0)
    theirs = head(x, fixed, choose=0, kernel=False)
    largest = 2 * np.sqrt(width)  # number in a rotated row of the norm
    largest_step = largest / 127 * 128 * fixed["scale"]
    assert (np.abs(ours - theirs) <= 2.001 * largest_step).all()
    tokens, highest = head(x, fixed, choose=1, kernel=False)
    np.testing.assert_array_equal(tokens, theirs.argmax(axis=1)[:, None])
    np.testing.assert_array_equal(highest, theirs.max(axis=1)[:, None])


def like_a_vocabulary(rng, fixed, x):
    """Gives each row one logit far above the others, as in a model with a confident prediction."""
    blocks = x.reshape(len(x), -1, len(fixed["hadamard"]))
    normed = (blocks @ fixed["hadamard"]).reshape(x.shape) * fixed["norm"]
    rotated = (normed.reshape(blocks.shape) @ fixed["hadamard"]).reshape(x.shape)
    rotated /= np.maximum(np.abs(rotated).max(axis=1, keepdims=True), 1e-9)
    table = np.clip(rng.normal(size=fixed["table"].shape) * 30, -128, 127)
    tokens = rng.choice(len(table), len(x), replace=False)
    table[tokens] = np.clip(rotated * 90 + rng.normal(size=x.shape), -128, 127)
    return fixed | {"table": table.astype(np.int8)}


def all_alike(rng, fixed, x):
    """Rows of the table that differ only in their last three bits."""
    table = np.repeat(fixed["table"][:1] & -8, len(fixed["table"]), axis=0)
    return fixed | {"table": table | rng.integers(0, 8, table.shape, np.int8)}


def twins(rng, fixed, x):
    """Each logit occurs twice: the first index is the arg max."""
    table, scale = like_a_vocabulary(rng, fixed, x)["table"], fixed["scale"].copy()
    half = len(table) // 2
    table[half:] = table[: len(table) - half]
    scale[half:] = scale[: len(scale) - half]
    return fixed | {"table": table, "scale": scale}


def strange_scales(rng, fixed, x):
    """Scales that are negative, zero, or too large for a finite logit."""
    scale = fixed["scale"] * rng.choice([-1, 0, 1], len(fixed["scale"]))
    scale[len(scale) // 3] = 3e38
    return fixed | {"scale": scale.astype(np.float32)}


TABLES = (lambda rng, fixed, x: fixed, like_a_vocabulary, all_alike, twins, strange_scales)


@pytest.mark.parametrize("table", TABLES, ids=["any", *(table.__name__ for table in TABLES[1:])])
@pytest.mark.parametrize("count", [1, 4, 9, 17])
@pytest.mark.parametrize(("width", "out", "block"), [(192, 9001, 64), (100, 5003, 4)])
def test_top_tokens_are_the_arg_max_of_the_logits(head, rng, table, count, width, out, block):
    x = rng.normal(size=(count, width)).astype(np.float32)
    if count == 17:
        x[7] = 0  # all logits are the same
    fixed = table(rng, head_of(rng, width, out, block), x)
    logits = head(x, fixed, choose=0)
    for _ in range(2):  # if the bounds exclude too few tokens, the second call searches without
        tokens, highest = head(x, fixed, choose=1)
        np.testing.assert_array_equal(tokens[:, 0], logits.argmax(axis=1))
        np.testing.assert_array_equal(highest[:, 0], logits.max(axis=1))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_top_tokens_are_those_of_a_search_without_bounds(head, data):
    """For all tables, also those whose rows differ in one bit."""
    width, out, count = (data.draw(st.integers(1, most)) for most in (40, 80, 12))
    seed = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    spread = data.draw(st.sampled_from([1, 2, 8, 64, 256]))
    x = seed.normal(size=(count, width)).astype(np.float32)
    fixed = head_of(seed, width, out, 1)
    row = seed.integers(-128, 129 - spread, width)
    fixed["table"] = (row + seed.integers(0, spread, (out, width))).astype(np.int8)
    logits = head(x, fixed, choose=0)
    tokens, highest = head(x, fixed, choose=1)
    np.testing.assert_array_equal(tokens[:, 0], logits.argmax(axis=1))
    np.testing.assert_array_equal(highest[:, 0], logits.max(axis=1))


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("count", [1, 9])
def test_probabilities_of_top_tokens_are_those_of_the_softmax(head, rng, count, kernel):
    x, fixed = rng.normal(size=(count, 64)).astype(np.float32), head_of(rng, 64, 500, 64)
    fixed["table"][7], fixed["scale"][7] = fixed["table"][3], fixed["scale"][3]  # equal logits
    logits = head(x, fixed, choose=0, kernel=kernel)
    tokens, highest, probabilities = head(x, fixed, choose=2, kernel=kernel)
    best = np.argsort(-logits, axis=1, kind="stable")[:, :TOP_K]
    np.testing.assert_array_equal(tokens, best)
    np.testing.assert_array_equal(highest, np.take_along_axis(logits, best, axis=1))
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    expected = np.take_along_axis(weights, best, axis=1) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


def test_a_vocabulary_smaller_than_the_top_tokens_is_refused(called, rng):
    inputs = {"x": rows_of(rng, 2, 4), "choose": np.array([2], np.int64)}
    with pytest.raises(Exception, match="3 tokens of a table of 2"):
        called(INT8_HEAD, inputs, head_of(rng, 4, 2, 1), epsilon=1e-5, blocks=[-1, 1], rows=[-1, 4])


@pytest.mark.parametrize("mode", [-1, 3])
def test_an_unknown_output_mode_is_refused(called, rng, mode):
    fixed = head_of(rng, 64, 48, 64)
    inputs = {"x": rows_of(rng, 2, 64), "choose": np.array([mode], np.int64)}
    with pytest.raises(Exception, match=f"choose is {mode}; give 0"):
        called(INT8_HEAD, inputs, fixed, epsilon=1e-5, blocks=[-1, 64], rows=[-1, 64])


def test_top_tokens_are_row_invariant(head, rng):
    x = rows_of(rng, MANY, 576)
    fixed = like_a_vocabulary(rng, head_of(rng, 576, 3001, 64), x)
    together, _ = head(x, fixed, choose=1)
    alone = [head(row[None], fixed, choose=1, threads=1)[0] for row in x]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_the_top_logit_of_a_row_with_nan_is_nan(head, rng):
    x = rows_of(rng, 5, 64)
    x[3, 7] = np.nan
    tokens, highest = head(x, head_of(rng, 64, 48, 64), choose=1)
    assert tokens[3] == [0]
    assert np.isnan(highest[3])
    assert np.isfinite(np.delete(highest, 3)).all()


def test_a_row_with_nan_does_not_change_the_top_tokens_of_others(head, rng):
    """With few rows, bounds from the upper bits exclude most tokens."""
    x = rng.normal(size=(17, 192)).astype(np.float32)
    fixed = like_a_vocabulary(rng, head_of(rng, 192, 9001, 64), x)
    expected, _ = head(x, fixed, choose=1)
    x[7, 3] = np.nan
    tokens, highest = head(x, fixed, choose=1)
    assert np.isnan(highest[7])
    np.testing.assert_array_equal(np.delete(tokens, 7, 0), np.delete(expected, 7, 0))


def test_top_tokens_of_wide_rows_are_exact(head, rng):
    """Integer sums above 2**24: different sums may round to one logit; the arg max is the first."""
    x = np.ones((3, 4096), np.float32)
    x[1, ::2] = -1
    fixed = head_of(rng, 4096, 600, 64) | {"scale": np.full(600, 1e-3, np.float32)}
    fixed["norm"] = np.ones(4096, np.float32)
    fixed["table"] = rng.integers(120, 128, (600, 4096), dtype=np.int8)
    logits = head(x, fixed, choose=0)
    tokens, highest = head(x, fixed, choose=1)
    np.testing.assert_array_equal(tokens[:, 0], logits.argmax(axis=1))
    np.testing.assert_array_equal(highest[:, 0], logits.max(axis=1))


def test_a_call_without_rows_returns_no_top_tokens(head, rng):
    nothing, fixed = np.zeros((0, 64), np.float32), head_of(rng, 64, 48, 64)
    assert head(nothing, fixed, choose=0).shape == (0, 48)
    for choose, best in ((1, 1), (2, TOP_K)):
        assert all(found.shape == (0, best) for found in head(nothing, fixed, choose=choose))


# --- Weights of 16 bits ------------------------------------------------------------------------


FORMATS_16_BITS = {
    "fp16": (FLOAT16_MATMUL, np.float16),
    "bf16": (BFLOAT16_MATMUL, ml_dtypes.bfloat16),
}
SHAPES_16_BITS = [(64, 48), (576, 1000), (100, 33), (1024, 17), (4, 1)]  # in, out


def weights_of_16_bits(rng, width, out, dtype):
    """Weights of all magnitudes that 16 bits can represent, subnormal numbers included."""
    weights = rng.normal(size=(out, width)) * 10.0 ** rng.integers(-7, 3, (out, 1))
    return {"weights": weights.astype(dtype)}


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


# --- Gates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["silu", "gelu_new"])
@pytest.mark.parametrize("width", [3, 64, 1536])
def test_a_gate_equals_that_of_the_standard_operators(called, rng, activation, width):
    gate = np.concatenate([rng.normal(size=(6, width)) * 5, np.full((2, width), 300)])
    gate[-1] *= -1  # e^300 is beyond float32
    x = {"gate": gate.astype(np.float32), "up": rng.normal(size=(8, width)).astype(np.float32)}
    (ours,) = called(GATES[activation], x, {})
    (theirs,) = called(GATES[activation], x, {}, kernel=False)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


# --- Attention ---------------------------------------------------------------------------------


HEADS = {
    "SmolLM2": (9, 3, 64),
    "T5": (6, 6, 64),
    "one key head": (4, 1, 16),
    "odd head": (2, 2, 24),
    "large heads": (4, 2, 128),
}


WINDOW = 37  # positions; it begins and ends inside tiles
NO_LAYOUTS = np.zeros((0, 3), np.int64)
NO_SOURCES = np.zeros((0, 2), np.int64)


def cached_inputs(rng, shape, count, past, capacity):
    """Of a causal call; forgotten positions hold numbers that would be seen."""
    heads, kv_heads, size = shape
    new = [rng.normal(size=(count, n * size)) for n in (heads, kv_heads, kv_heads)]
    old = [rng.normal(size=(1, kv_heads, capacity, size)) for _ in range(2)]
    for buffer in old:
        buffer[:, :, past:] = np.nan
    names = ("q", "k", "v", "past_key", "past_value")
    inputs = {n: v.astype(np.float32) for n, v in zip(names, new + old, strict=True)}
    total = past + count
    inputs |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    return inputs | {"layouts": NO_LAYOUTS}


def attributes_of(shape, function=SOURCE_ATTENTION):
    heads, kv_heads, size = shape
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "scale": size**-0.5}
    attributes |= {"head_epsilon": 1e-5, "window": WINDOW}
    return {name: attributes[name] for name in function.attributes}


def with_angles(rng, inputs, shape):
    angles = rng.uniform(-9, 9, (1, len(inputs["q"]), shape[2] // 2)).astype(np.float32)
    return inputs | {"cos": np.cos(angles), "sin": np.sin(angles)}


def with_head_norms(rng, inputs, shape):
    norms = {f"{part}_norm": rng.uniform(0.5, 2, shape[2]) for part in "qk"}
    inputs = with_angles(rng, inputs, shape)
    return inputs | {name: weights.astype(np.float32) for name, weights in norms.items()}


def head_norms_of(inputs):
    return {name: inputs[name] for name in ("q_norm", "k_norm") if name in inputs}


def with_bias(rng, inputs, shape):
    size = (1, shape[0], len(inputs["q"]), int(inputs["total"]))
    return inputs | {"bias": rng.normal(size=size).astype(np.float32)}


def in_fp32(inputs):
    return inputs


def in_fp16(inputs):
    return inputs | {name: inputs[name].astype(np.float16) for name in PAST}


def in_int8(inputs):
    scales = {f"{name}_scale": np.abs(inputs[name]).max(-1, keepdims=True) / 127 for name in PAST}
    codes = {name: np.rint(inputs[name] / scales[f"{name}_scale"]) for name in PAST}
    codes = {name: np.nan_to_num(rows).astype(np.int8) for name, rows in codes.items()}
    return inputs | codes | {n: scale.astype(np.float32) for n, scale in scales.items()}


PAST = ("past_key", "past_value")
NARROW = {"fp16": in_fp16, "int8": in_int8}
FUNCTIONS = {
    (encoding, cache): function
    for encoding, by_cache in SELF_ATTENTION.items()
    for cache, function in by_cache.items()
}
ENCODED = {
    "Rotary": with_angles,
    "Biased": with_bias,
    "Windowed": with_angles,
    "NormedRotary": with_head_norms,
    "NormedWindowed": with_head_norms,
}
CACHE_FORMATS = {"fp32": in_fp32, **NARROW}


def complete_for(encoding, cache):
    """Adds positions to the inputs of a call, and stores its past in this format."""

    def complete(rng, inputs, shape):
        return CACHE_FORMATS[cache](ENCODED[encoding](rng, inputs, shape))

    return complete


KINDS = {
    f"{encoding} {cache}": (function, complete_for(encoding, cache))
    for (encoding, cache), function in FUNCTIONS.items()
}
TOLERANCES = {"fp32": 3e-6, "fp16": 1e-3, "int8": 2e-2}  # rotated keys may be rounded otherwise


def buffers_of(inputs):
    """The buffers of the cache, in the order of the outputs."""
    return {name: value for name, value in inputs.items() if name.startswith("past_")}


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "past"), [(1, 0), (2, 5), (5, 700), (MANY, 0), (MANY, 530)])
def test_cached_attention_equals_that_of_the_standard_operators(
    called, rng, shape, kind, count, past
):
    function, complete = KINDS[kind]
    inputs = complete(rng, cached_inputs(rng, shape, count, past, past + count + 3), shape)
    ours, *our_cache = called(function, inputs, {}, **attributes_of(shape, function))
    theirs, *their_cache = called(
        function, inputs, {}, kernel=False, **attributes_of(shape, function)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=TOLERANCES[kind.split()[1]])
    steps = {np.dtype(np.float16): 1e-3, np.dtype(np.int8): 1}  # between two numbers
    for mine, other in zip(our_cache, their_cache, strict=True):
        seen = np.s_[:, :, : past + count]
        a, b = (cache[seen].astype(np.float32) for cache in (mine, other))
        step = steps.get(mine.dtype, 1e-6)
        np.testing.assert_allclose(a, b, rtol=step if step < 1 else 0, atol=step)
        assert (np.isclose(a, b, rtol=1e-6, atol=1e-6)).mean() > 0.99


def widened(buffers):
    """Keys and values in float32, from the buffers of a cache."""
    keys, values, *scales = (buffer.astype(np.float32) for buffer in buffers)
    return [rows * scale for rows, scale in zip((keys, values), scales or (1, 1), strict=True)]


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("cache", NARROW)
@pytest.mark.parametrize(("count", "past"), [(1, 0), (5, 700), (MANY, 0), (MANY, 530)])
def test_keys_and_values_are_rounded_exactly_as_the_standard_operators_do(
    called, rng, shape, cache, count, past
):
    inputs = cached_inputs(rng, shape, count, past, past + count + 3)
    inputs = NARROW[cache](with_bias(rng, inputs, shape))
    inputs["k"][0, :3] = 0, -0.0, 7e4  # beyond float16
    inputs["v"][0] = 0
    inputs["v"][-1] *= 1e-7  # subnormal in float16
    function = SELF_ATTENTION["Biased"][cache]
    _, *ours = called(function, inputs, {}, **attributes_of(shape, function))
    _, *theirs = called(function, inputs, {}, kernel=False, **attributes_of(shape, function))
    for mine, other in zip(ours, theirs, strict=True):
        seen = np.s_[:, :, : past + count]
        np.testing.assert_array_equal(mine[seen], other[seen])


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("cache", NARROW)
@pytest.mark.parametrize("encoding", ["Rotary", "Biased", "Windowed"])
@pytest.mark.parametrize(("count", "past"), [(1, 0), (1, 700), (5, 250), (MANY, 530)])
def test_attention_to_a_narrow_cache_has_the_bits_of_attention_to_its_numbers_in_float32(
    called, rng, shape, cache, encoding, count, past
):
    inputs = ENCODED[encoding](rng, cached_inputs(rng, shape, count, past, past + count), shape)
    if encoding != "Biased":  # stored keys are not rotated again
        inputs |= {"cos": np.ones_like(inputs["cos"]), "sin": np.zeros_like(inputs["sin"])}
    narrow = FUNCTIONS[encoding, cache]
    attributes = attributes_of(shape, narrow)
    found, *present = called(narrow, NARROW[cache](inputs), {}, **attributes)
    wide = dict(zip(PAST, widened(present), strict=True))
    for name, buffer in zip("kv", PAST, strict=True):
        rows = wide[buffer][0, :, past:].transpose(1, 0, 2)
        inputs[name] = np.ascontiguousarray(rows.reshape(count, -1))
    expected, *_ = called(FUNCTIONS[encoding, "fp32"], inputs | wide, {}, **attributes)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cache", NARROW)
def test_a_position_with_nan_gives_nan_to_those_that_see_it(called, rng, cache):
    shape = HEADS["SmolLM2"]
    inputs = NARROW[cache](with_bias(rng, cached_inputs(rng, shape, 5, 20, 25), shape))
    inputs["v"][3] = np.nan
    y, *_ = called(SELF_ATTENTION["Biased"][cache], inputs, {}, **attributes_of(shape))
    assert np.isnan(y[3:]).all()
    assert np.isfinite(y[:3]).all()


def test_scales_that_do_not_fit_the_cache_are_refused(called, rng):
    shape = HEADS["SmolLM2"]
    inputs = in_int8(with_angles(rng, cached_inputs(rng, shape, 2, 5, 9), shape))
    inputs["past_value_scale"] = inputs["past_value_scale"][:, :, :7]
    with pytest.raises(Exception, match=r"past_value_scale \[1, .*capacity=7, .* in capacity"):
        called(SELF_ATTENTION["Rotary"]["int8"], inputs, {}, **attributes_of(shape))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"past_value": np.zeros((1, 3, 5, 64), np.float32)}, "capacity=5, .* differ in capacity"),
        ({n: np.zeros((1, 2, 9, 64), np.float32) for n in PAST}, "kv_num_heads=3 differ"),
        ({"past_key": np.zeros((1, 3, 0, 64), np.float32)}, "differ in capacity"),
        ({"past_key": np.zeros((2, 3, 9, 64), np.float32)}, "other than 1 where 1 is fixed"),
        ({"v": np.zeros((1, 192), np.float32)}, r"v \[m=1, .* and q \[m=2, .* differ in m"),
        ({"last": np.array([], np.int32)}, r"last \[0\] has a size other than 1"),
        ({"last": np.array([9], np.int32)}, "positions 8 to 9 in a cache of 9"),
        ({"last": np.array([0], np.int32)}, "positions -1 to 0 in a cache of 9"),
        ({"k": np.zeros((2, 64), np.float32)}, r"head size=192 differ in kv_width"),
        ({"cos": np.zeros((1, 2, 16), np.float32)}, "half of the head size=32 differ"),
        ({"layouts": np.zeros(0, np.int64)}, r"layouts .* should be \[described, layout\]"),
        ({"layouts": np.zeros((1, 2), np.int64)}, r"layouts \[1, 2\] .* a row has 3 numbers"),
        ({"layouts": np.zeros((3, 3), np.int64)}, r"layouts \[3, 3\] for a call of 2 rows"),
        ({"layouts": np.array([[-1, 0, 0]])}, "layout 0 has start -1, position 0 and index 0 in"),
        ({"layouts": np.array([[0, -1, 0]])}, "position -1 and index 0 in a cache of 9"),
        ({"layouts": np.array([[0, 0, 9]])}, "position 0 and index 9 in a cache of 9"),
        ({"layouts": np.array([[4, 6, 0]])}, "start 4, position 6 and index 0 in a cache of 9"),
        ({"layouts": np.array([[0, 7, 0]])}, "and a call up to position 6"),
    ],
)
def test_inputs_with_wrong_shapes_are_refused_without_reading_them(called, rng, wrong, said):
    shape = HEADS["SmolLM2"]
    inputs = with_angles(rng, cached_inputs(rng, shape, 2, 5, 9), shape) | wrong
    with pytest.raises(Exception, match=said):
        called(SELF_ATTENTION["Rotary"]["fp32"], inputs, {}, **attributes_of(shape))


@pytest.mark.parametrize("window", [1, 2, 32, 255, 256, 300, 5000])
@pytest.mark.parametrize(("count", "past"), [(1, 600), (5, 254), (MANY, 0), (MANY, 530)])
def test_a_window_of_any_size_equals_that_of_the_standard_operators(
    called, rng, window, count, past
):
    shape = HEADS["SmolLM2"]
    inputs = with_angles(rng, cached_inputs(rng, shape, count, past, past + count + 3), shape)
    attributes = attributes_of(shape, SELF_ATTENTION["Windowed"]["fp32"]) | {"window": window}
    ours, *_ = called(SELF_ATTENTION["Windowed"]["fp32"], inputs, {}, **attributes)
    theirs, *_ = called(SELF_ATTENTION["Windowed"]["fp32"], inputs, {}, kernel=False, **attributes)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=3e-6)


@pytest.mark.parametrize("encoding", ["Windowed", "NormedWindowed"])
@pytest.mark.parametrize("cache", CACHE_FORMATS)
@pytest.mark.parametrize("past", [100, 600])
def test_a_value_before_the_window_is_not_read(called, rng, encoding, cache, past):
    """It may be NaN, and then every other sum with it would be."""
    shape, function = HEADS["SmolLM2"], FUNCTIONS[encoding, cache]
    inputs = ENCODED[encoding](rng, cached_inputs(rng, shape, MANY, past, past + MANY), shape)
    for buffer in PAST:
        inputs[buffer][:, :, : past - WINDOW + 1 + 9] = np.nan
    inputs = CACHE_FORMATS[cache](inputs)
    y, *_ = called(function, inputs, {}, **attributes_of(shape, function))
    assert np.isnan(y[:9]).all()  # their windows begin earlier
    assert np.isfinite(y[9:]).all()


def test_a_window_of_no_positions_is_refused(called, rng):
    shape = HEADS["SmolLM2"]
    inputs = with_angles(rng, cached_inputs(rng, shape, 2, 5, 9), shape)
    attributes = attributes_of(shape, SELF_ATTENTION["Windowed"]["fp32"]) | {"window": 0}
    with pytest.raises(EdgespecError, match="window is 0; a query sees at least itself"):
        called(SELF_ATTENTION["Windowed"]["fp32"], inputs, {}, **attributes)


@pytest.mark.parametrize("part", "qk")
def test_norms_of_heads_have_the_bits_of_the_operator_of_norms(called, rng, part):
    """Attention with norms is attention of normalised heads."""
    shape = HEADS["odd head"]
    inputs = with_head_norms(rng, cached_inputs(rng, shape, 5, 70, 80), shape)
    inputs[part][2, :24] = np.inf
    function = SELF_ATTENTION["NormedWindowed"]["fp32"]
    ours = called(function, inputs, {}, **attributes_of(shape, function))
    for name in "qk":
        heads = inputs[name].reshape(-1, shape[2])
        norm = {"x": heads, "norm": inputs.pop(f"{name}_norm")}
        inputs[name] = called(RMS_NORM, norm, {}, epsilon=1e-5)[0].reshape(inputs[name].shape)
    theirs = called(
        SELF_ATTENTION["Windowed"]["fp32"],
        inputs,
        {},
        **attributes_of(shape, SELF_ATTENTION["Windowed"]["fp32"]),
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert np.isnan(ours[0]).any()


def test_norms_of_another_size_are_refused(called, rng):
    shape, function = HEADS["SmolLM2"], FUNCTIONS["NormedRotary", "fp32"]
    inputs = with_head_norms(rng, cached_inputs(rng, shape, 2, 5, 9), shape)
    inputs["k_norm"] = np.ones(32, np.float32)
    with pytest.raises(Exception, match=r"k_norm \[size=32\] and .* differ in size"):
        called(function, inputs, {}, **attributes_of(shape, function))


@pytest.mark.parametrize("shape", [(6, 6, 64), (2, 2, 24)])
@pytest.mark.parametrize("source", [1, 17, 600])
def test_cross_attention_equals_that_of_the_standard_operators(called, rng, shape, source):
    heads, _, size = shape
    inputs = {"q": rng.normal(size=(7, heads * size)).astype(np.float32)}
    for name in ("key", "value"):
        inputs[name] = rng.normal(size=(1, heads, source, size)).astype(np.float32)
    inputs["sources"] = NO_SOURCES
    (ours,) = called(SOURCE_ATTENTION, inputs, {}, **attributes_of(shape))
    (theirs,) = called(SOURCE_ATTENTION, inputs, {}, kernel=False, **attributes_of(shape))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=3e-6)


@pytest.mark.parametrize("shape", [(6, 6, 64), (2, 2, 24)])
@pytest.mark.parametrize("count", [1, 17, 300])
def test_attention_of_an_encoder_equals_that_of_the_standard_operators(called, rng, shape, count):
    heads, _, size = shape
    inputs = {n: rng.normal(size=(count, heads * size)).astype(np.float32) for n in "qkv"}
    inputs["bias"] = rng.normal(size=(1, heads, count, count)).astype(np.float32)
    (ours,) = called(ENCODER_ATTENTION, inputs, {}, **attributes_of(shape))
    (theirs,) = called(ENCODER_ATTENTION, inputs, {}, kernel=False, **attributes_of(shape))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=3e-6)


def test_a_bias_of_an_encoder_has_a_column_for_each_row(called, rng):
    shape = (2, 2, 24)
    inputs = {name: np.zeros((3, 48), np.float32) for name in "qkv"}
    inputs["bias"] = np.zeros((1, 2, 3, 4), np.float32)
    with pytest.raises(Exception, match="differ in m"):
        called(ENCODER_ATTENTION, inputs, {}, **attributes_of(shape))


# --- Norms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 64, 100, 576])
def test_a_norm_equals_that_of_the_standard_operators(called, rng, width):
    x = rng.normal(size=(MANY, width)) * 10.0 ** rng.integers(-3, 4, (MANY, 1))
    norm = rng.uniform(0.5, 2, width).astype(np.float32)
    inputs = {"x": x.astype(np.float32), "norm": norm}
    (ours,) = called(RMS_NORM, inputs, {}, epsilon=1e-5)
    (theirs,) = called(RMS_NORM, inputs, {}, kernel=False, epsilon=1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)


@pytest.mark.parametrize("outlier", [np.nan, np.inf, 1e30])
def test_a_norm_that_is_not_finite_gives_nan(called, rng, outlier):
    x = rng.normal(size=(5, 64)).astype(np.float32)
    x[3, 7] = outlier
    (y,) = called(RMS_NORM, {"x": x, "norm": np.ones(64, np.float32)}, {}, epsilon=1e-5)
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, axis=0)).all()


# --- Fused blocks ------------------------------------------------------------------------------


STREAM = 96  # columns


def cached_parts(rng, count, shape, complete):
    """The inputs of self-attention that follow queries, keys and values."""
    inputs = complete(rng, cached_inputs(rng, shape, count, 70, 70 + count + 3), shape)
    return {name: value for name, value in inputs.items() if name not in ("q", "k", "v")}


# By the start of a product's name: weights, and attributes with their sizes.
PRODUCTS = {
    "Int8": (weights_of, lambda width, out: {}),
    "Int4": (int4_weights_of, lambda width, out: {"k": width, "n": out}),
    "Int8Group": (int8_group_weights_of, lambda width, out: {"k": width, "n": out}),
}


def product_of(rng, function, width, out):
    """Weights of a product, or of one of normed or rotated rows, and its attributes."""
    kind = function.name.removeprefix("RMSNorm").removeprefix("Hadamard").removesuffix("MatMul")
    make, sizes = PRODUCTS[kind]
    fixed, attributes = make(rng, width, out), sizes(width, out)
    if "Hadamard" in function.name:
        block = 32 if width == STREAM else 64
        fixed |= {"hadamard": hadamard(block)}
        attributes |= {"blocks": [-1, block], "rows": [-1, width]}
    return fixed, attributes


def block_inputs(rng, name, count):
    """A fused block with inputs, constants and attributes."""
    fused = BLOCKS[name]
    inputs = {"x": rows_of(rng, count, STREAM)}
    attributes, inner = {"epsilon": 1e-5, "step": 4 / 127}, fused.inner.name
    if "Attention" in inner:
        shape = (4, 4, 16) if fused.columns == 1 else (4, 2, 16)
        heads, kv_heads, size = shape
        attributes |= attributes_of(shape, fused.inner)
        widths, middle = [heads * size, kv_heads * size, kv_heads * size], heads * size
        if fused.columns == 1:
            widths = widths[:1]
            for source in ("key", "value"):
                inputs[source] = rng.normal(size=(1, heads, 9, size)).astype(np.float32)
            inputs["sources"] = NO_SOURCES
        else:
            (complete,) = (c for function, c in KINDS.values() if function is fused.inner)
            inputs |= cached_parts(rng, count, shape, complete)
    else:
        middle = 192
        widths = [middle] * fused.columns
    if len(widths) > 1:
        attributes["widths"] = widths
    opening, more = product_of(rng, fused.opening, STREAM, sum(widths))
    closing, closing_more = product_of(rng, fused.closing, middle, STREAM)
    attributes |= more | {CLOSING[name]: value for name, value in closing_more.items()}
    fixed = {"norm": rng.uniform(0.5, 2, STREAM).astype(np.float32)} | opening
    fixed |= {f"closing_{name}": value for name, value in closing.items()}
    if fused.has_bias:
        fixed["projection_bias"] = rng.normal(size=sum(widths)).astype(np.float32)
    if fused.post_norm:
        fixed["post_norm"] = rng.uniform(0.5, 2, STREAM).astype(np.float32)
        attributes["post_epsilon"] = 1e-6
    return fused, inputs, fixed, {name: attributes[name] for name in fused.whole.attributes}


def by_parts(g, fused, values, attributes):
    """Emits a block operator by operator: its outputs, and the inner operator's as the last."""

    def call(function, *given, renamed=MappingProxyType({})):
        names = {name: renamed.get(name, name) for name in function.attributes}
        return g.call(function, *given, **{name: attributes[at] for name, at in names.items()})

    ordered = [values[name] for name in fused.whole.inputs]
    first, last = len(fused.opening.inputs), len(fused.closing.inputs) - 1
    opening, rest = ordered[:first], ordered[first:]
    with g.block("block"):
        (y,) = call(fused.opening, *opening)
        if fused.has_bias:
            y = g.op.Sum(y, rest.pop(0))
        parts = g.split(y, attributes["widths"]) if fused.columns > 1 else [y]
        norm = [rest.pop()] if fused.post_norm else []
        middle, *others = call(fused.inner, *parts, *rest[:-last])
        (closed,) = call(fused.closing, middle, *rest[-last:], renamed=CLOSING)
        if fused.post_norm:
            (closed,) = call(fused.post_norm, closed, *norm, renamed=POST_NORM_NAMES)
        return [g.op.Add(opening[0], closed), *others, middle]


def run_by_parts(folder, fused, inputs, fixed, attributes, *, seen):
    """Outputs of a block after the pass, and the operators of its graph.

    Args:
        seen: the inner operator's result is an output of the graph, which prevents the fusion.
    """
    g = Graph("by parts", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    results = by_parts(g, fused, values, attributes)
    add_outputs(g, fused.whole, results[:-1])
    if seen:
        g.output("seen", results[-1], np.float32, [None, None])
    model = g.model()
    fuse_blocks(model, g.blocks)
    ir.save(model, folder / "parts.onnx")
    operators = [node.op_type for node in model.graph]
    outputs = open_session(folder / "parts.onnx", Device(2)).run(None, inputs)
    return outputs[: fused.whole.outputs], operators


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("count", "threads"), [(1, 1), (2, 3), (5, 2), (17, 3), (MANY, 2)])
def test_a_fused_block_has_the_bits_of_its_separate_operators(
    called, rng, tmp_path, name, count, threads
):
    fused, inputs, fixed, attributes = block_inputs(rng, name, count)
    parts, operators = run_by_parts(tmp_path, fused, inputs, fixed, attributes, seen=True)
    assert fused.inner.name in operators
    for _ in range(3):  # threads do not always meet in the same way
        whole = called(fused.whole, inputs, fixed, threads=threads, **attributes)
        for ours, theirs in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fused_block_differs_from_the_standard_operators_by_rounding(
    rng, tmp_path, name, monkeypatch
):
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    given = (tmp_path, fused, inputs, fixed, attributes)
    (ours, *_), _ = run_by_parts(*given, seen=False)
    monkeypatch.setenv(SWITCH, "0")
    (theirs, *_), _ = run_by_parts(*given, seen=False)
    added, expected = ours - inputs["x"], theirs - inputs["x"]
    # A number halfway between two of 8 bits may be rounded to either: they differ by 1 of 127.
    assert np.abs(added - expected).max() < 0.03 * np.abs(expected).max()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fused_block_without_a_kernel_runs_by_its_body(called, rng, tmp_path, name):
    """Graphs of older exports have other names; operators of the body may still have kernels."""
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    expected = called(fused.whole, inputs, fixed, **attributes)
    model = one_call(fused.whole, inputs, fixed, attributes)
    (node,) = (node for node in model.graph if node.op_type == fused.whole.name)
    node.op_type = f"{fused.whole.name}OfBefore"
    ((identifier, function),) = (
        item for item in model.functions.items() if item[1].name == fused.whole.name
    )
    del model.functions[identifier]
    function.name = node.op_type
    middle = fused.inner.built({name: attributes[name] for name in fused.inner.attributes})
    model.functions.update({f.identifier(): f for f in (function, middle)})
    ir.save(model, tmp_path / "older.onnx")
    found = open_session(tmp_path / "older.onnx", Device(2)).run(None, inputs)
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", BLOCKS)
def test_operators_of_a_declared_block_are_fused(rng, tmp_path, name):
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    given = (tmp_path, fused, inputs, fixed, attributes)
    joined, operators = run_by_parts(*given, seen=False)
    assert operators == [fused.whole.name]
    parts, _ = run_by_parts(*given, seen=True)
    for ours, theirs in zip(joined, parts, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_block_whose_keys_have_another_use_is_not_fused(rng, tmp_path):
    fused, inputs, fixed, attributes = block_inputs(rng, "RotaryRowAttentionBlock", 5)
    g = Graph("key used", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    out, key, value, _ = by_parts(g, fused, values, attributes)
    results = ((out, 2), (key, 4), (value, 4), (g.op.Identity(key), 4))
    for index, (result, rank) in enumerate(results):
        g.output(f"result {index}", result, np.float32, [None] * rank)
    model = g.model()
    fusion = fuse_blocks(model, g.blocks)
    assert fused.whole.name not in [node.op_type for node in model.graph]
    assert str(fusion) == (
        "0 of 1 blocks fused; block (1 block) not fused: other operators use the outputs of "
        "RotaryRowAttention"
    )


def test_a_block_that_no_operator_computes_is_not_fused(rng):
    """No model has this one: a norm after a feed-forward with a SiLU."""
    fused, inputs, fixed, attributes = block_inputs(rng, "Int4GeluFeedForwardPostNormBlock", 5)
    g = Graph("not in the table", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    out, _ = by_parts(g, replace(fused, inner=GATES["silu"]), values, attributes)
    g.output("y", out, np.float32, [None, None])
    assert str(fuse_blocks(g.model(), g.blocks)) == (
        "0 of 1 blocks fused; block (1 block) not fused: no operator computes RMSNormInt4MatMul, "
        "SiluGate and RMSNorm"
    )


def test_weights_that_do_not_fit_each_other_are_refused(called, rng):
    fused, inputs, fixed, attributes = block_inputs(rng, "SiluFeedForwardBlock", 5)
    wrong = fixed | weights_of(rng, STREAM, 300)
    with pytest.raises(EdgespecError, match=r"weights make 300 columns; 2 \* 192 fit"):
        called(fused.whole, inputs, wrong, **attributes)
    fused, inputs, fixed, attributes = block_inputs(rng, "RotaryRowAttentionBlock", 5)
    wrong = fixed | weights_of(rng, STREAM, 136)
    with pytest.raises(EdgespecError, match="weights make 136 columns; queries, keys and values"):
        called(fused.whole, inputs, wrong, **attributes)


# --- Row invariance ----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["plain", "normed", "normed and rotated", "rotated"])
def test_an_int8_product_is_row_invariant(called, rng, name, threads):
    fixed = weights_of(rng, 576, 200)
    function, more, attributes = {
        "plain": (INT8_MATMUL, {}, {}),
        "normed": (
            RMS_NORM_INT8_MATMUL,
            {"norm": np.ones(576, np.float32)},
            {"epsilon": 1e-5, "step": 4 / 127},
        ),
        "normed and rotated": (
            RMS_NORM_HADAMARD_INT8_MATMUL,
            {"norm": np.ones(576, np.float32), "hadamard": hadamard(64)},
            {"epsilon": 1e-5, "blocks": [-1, 64], "rows": [-1, 576]},
        ),
        "rotated": (
            HADAMARD_INT8_MATMUL,
            {"hadamard": hadamard(64)},
            {"blocks": [-1, 64], "rows": [-1, 576]},
        ),
    }[name]
    fixed = more | fixed
    x = rows_of(rng, MANY, 576)
    (whole,) = called(function, {"x": x}, fixed, **attributes)
    for count in range(1, 18):
        (part,) = called(function, {"x": x[3 : 3 + count]}, fixed, threads=threads, **attributes)
        np.testing.assert_array_equal(part, whole[3 : 3 + count])


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("past", [0, 500, 2000])
def test_a_position_has_the_same_bits_in_calls_of_any_size(called, rng, shape, kind, past):
    """One call, and the same positions in calls of 1, 2, 5, 9 and the remaining ones."""
    function, complete = KINDS[kind]
    whole = complete(rng, cached_inputs(rng, shape, MANY, past, past + MANY), shape)
    attributes = attributes_of(shape, function)
    expected, *cache = called(function, whole, {}, **attributes)
    buffers = buffers_of(whole)
    for call, (start, end) in enumerate(pairwise([0, 1, 3, 8, 17, MANY])):
        part = {name: whole[name][start:end] for name in "qkv"}
        part |= buffers | head_norms_of(whole)
        part |= {"last": np.array([past + end - 1], np.int32)}
        part |= {"total": np.array(past + end, np.int32), "layouts": whole["layouts"]}
        if "cos" in whole:
            part |= {name: whole[name][:, start:end] for name in ("cos", "sin")}
        else:
            part["bias"] = np.ascontiguousarray(whole["bias"][:, :, start:end, : past + end])
        threads = 1 + call % 2
        out, *present = called(
            function, part, {}, threads=threads, **attributes_of(shape, function)
        )
        np.testing.assert_array_equal(out, expected[start:end])
        buffers = dict(zip(buffers, present, strict=True))
    for ours, theirs in zip(present, cache, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- Candidates ----------------------------------------------------------------------------------


# Parents of candidates in a call of 9 tokens. The last case is the work of several threads.
FAMILIES = {
    "one": [0],
    "some": [4, 0, 4, 7],
    "more than drafted tokens": [3, 6, 1, 1, 0, 5, 7, 2, 2, 7] * 4,
}
LINE = 9


def with_candidates(rng, line, parents):
    """A call of drafted tokens and candidates; a candidate's position is that after its parent."""
    count, past = len(parents), int(line["total"]) - LINE
    positions = np.array(parents) + 1
    tree = dict(line)
    for name in "qkv":
        new = rng.normal(size=(count, line[name].shape[1])).astype(np.float32)
        tree[name] = np.concatenate([line[name], new])
    total = past + LINE + count
    tree |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    tree["layouts"] = np.array(
        [(0, past + after, past + LINE + i) for i, after in enumerate(positions)], np.int64
    )
    if "cos" in line:
        for name in ("cos", "sin"):
            tree[name] = np.concatenate([line[name], line[name][:, positions]], axis=1)
    else:
        size = (1, line["bias"].shape[1], LINE + count, total)
        tree["bias"] = rng.normal(size=size).astype(np.float32)
        tree["bias"][:, :, :LINE, : past + LINE] = line["bias"]
    return tree


def as_drafted(tree, position, row, past):
    """The call that has a candidate, row `row` of `tree`, as a drafted token at `position`."""
    rows = [*range(position), row]
    part = {name: tree[name][rows] for name in "qkv"}
    part |= buffers_of(tree) | head_norms_of(tree) | {"layouts": NO_LAYOUTS}
    total = past + len(rows)
    part |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    if "cos" in tree:
        return part | {name: tree[name][:, rows] for name in ("cos", "sin")}
    return part | {"bias": np.ascontiguousarray(tree["bias"][:, :, rows, :total])}


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parents", FAMILIES.values(), ids=FAMILIES)
# Tiles of 32 and 64 keys and chunks of 256 begin inside the drafted tokens, and after them.
@pytest.mark.parametrize("past", [0, 29, 60, 247, 251, 255, 1020])
def test_a_candidate_has_the_bits_that_it_has_as_a_drafted_token(
    called, rng, shape, kind, parents, past
):
    function, complete = KINDS[kind]
    capacity = past + LINE + len(parents)
    line = complete(rng, cached_inputs(rng, shape, LINE, past, capacity), shape)
    tree = with_candidates(rng, line, parents)
    expected, *_ = called(function, line, {}, **attributes_of(shape, function))
    for threads in (1, 2):
        out, *cache = called(function, tree, {}, threads=threads, **attributes_of(shape, function))
        np.testing.assert_array_equal(out[:LINE], expected)
        for candidate, parent in enumerate(parents):
            row, position = LINE + candidate, parent + 1
            part = as_drafted(tree, position, row, past)
            alone, *its_cache = called(function, part, {}, **attributes_of(shape, function))
            np.testing.assert_array_equal(out[row], alone[position])
            for ours, theirs in zip(cache, its_cache, strict=True):
                np.testing.assert_array_equal(ours[:, :, past + row], theirs[:, :, past + position])


@pytest.mark.parametrize("kind", KINDS)
def test_without_kernels_candidates_are_an_error(called, rng, kind):
    function, complete = KINDS[kind]
    shape = HEADS["T5"]
    line = complete(rng, cached_inputs(rng, shape, LINE, 5, 30), shape)
    tree = with_candidates(rng, line, [2, 3])
    with pytest.raises(Exception, match="Reshape"):
        called(function, tree, {}, kernel=False, **attributes_of(shape, function))


# --- Several texts -------------------------------------------------------------------------------

TEXTS = [(0, 40), (300, 5), (7, 9), (33, 1)]  # positions before a call, and rows in it


def joined(rng, complete, shape, texts):
    """Calls of several texts, each with a cache of its own, and the same rows as one call.

    Texts lie in the cache one after the other, the first one last; rows come in random order.
    """
    alone = [
        complete(rng, cached_inputs(rng, shape, n, past, past + n), shape) for past, n in texts
    ]
    alone = [inputs | head_norms_of(alone[0]) for inputs in alone]
    starts = np.cumsum([0, *(past + n for past, n in reversed(texts))])[-2::-1]
    rows = [(t, r) for t, (_, n) in enumerate(texts) for r in range(n)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    call = {name: np.stack([alone[t][name][r] for t, r in rows]) for name in "qkv"}
    call |= head_norms_of(alone[0])
    for name in buffers_of(alone[0]):
        call[name] = np.concatenate([part[name] for part in reversed(alone)], axis=2)
    positions = [texts[t][0] + r for t, r in rows]
    total = max(len(rows), max(positions) + 1)
    call |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    call["layouts"] = np.array(
        [(starts[t], p, starts[t] + p) for (t, _), p in zip(rows, positions, strict=True)], np.int64
    )
    if "cos" in alone[0]:
        for name in ("cos", "sin"):
            call[name] = np.stack([alone[t][name][0, r] for t, r in rows])[None]
    else:
        call["bias"] = np.full((1, shape[0], len(rows), total), np.nan, np.float32)
        for row, (t, r) in enumerate(rows):
            seen = texts[t][0] + r + 1
            call["bias"][0, :, row, :seen] = alone[t]["bias"][0, :, r, :seen]
    return alone, call, rows, starts


@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_bits_that_it_has_in_a_call_of_its_own_text(
    called, rng, shape, kind, threads
):
    function, complete = KINDS[kind]
    alone, call, rows, starts = joined(rng, complete, shape, TEXTS)
    out, *cache = called(function, call, {}, threads=threads, **attributes_of(shape, function))
    for number, inputs in enumerate(alone):
        expected, *its_cache = called(function, inputs, {}, **attributes_of(shape, function))
        for row, (text, own) in enumerate(rows):
            if text == number:
                np.testing.assert_array_equal(out[row], expected[own])
        first, count = starts[number], sum(TEXTS[number])
        for ours, theirs in zip(cache, its_cache, strict=True):
            np.testing.assert_array_equal(ours[:, :, first : first + count], theirs)


def test_a_row_that_sees_a_key_of_another_text_is_caught(called, rng):
    """The mutant begins one text one position too early."""
    shape = HEADS["SmolLM2"]
    function, complete = KINDS["Rotary fp32"]
    alone, call, rows, _ = joined(rng, complete, shape, TEXTS)
    call["layouts"][[row for row, (text, _) in enumerate(rows) if text == 1], 0] -= 1
    out, *_ = called(function, call, {}, **attributes_of(shape, function))
    expected, *_ = called(function, alone[1], {}, **attributes_of(shape, function))
    wrong = [out[row] for row, (text, own) in enumerate(rows) if (text, own) == (1, 2)]
    assert not np.array_equal(wrong[0], expected[2])


def test_rows_see_their_parts_of_a_source(called, rng):
    """And have the bits that they have where it is all of the source."""
    shape = HEADS["T5"]
    heads, _, size = shape
    parts = [(50, 40), (3, 1), (10, 33)]
    key, value = (rng.normal(size=(1, heads, 90, size)).astype(np.float32) for _ in range(2))
    q = rng.normal(size=(7, heads * size)).astype(np.float32)
    seen = [parts[row % len(parts)] for row in range(len(q))]
    inputs = {"q": q, "key": key, "value": value, "sources": np.array(seen, np.int64)}
    (out,) = called(SOURCE_ATTENTION, inputs, {}, threads=2, **attributes_of(shape))
    for row, (start, count) in enumerate(seen):
        whole = {
            name: inputs[name][:, :, start : start + count].copy() for name in ("key", "value")
        }
        whole |= {"q": q[row : row + 1], "sources": NO_SOURCES}
        (alone,) = called(SOURCE_ATTENTION, whole, {}, **attributes_of(shape))
        np.testing.assert_array_equal(out[row], alone[0])
    for wrong, said in (
        ([[0, 1, 2]], "a row has 2 numbers"),
        ([[-1, 4]], "row 0 sees 4 positions from -1 on of a source of 90"),
        ([[0, 0]], "sees 0 positions"),
        ([[80, 11]], "sees 11 positions from 80"),
    ):
        with pytest.raises(Exception, match=said):
            called(
                SOURCE_ATTENTION,
                inputs | {"sources": np.array(wrong, np.int64)},
                {},
                **attributes_of(shape),
            )
    with pytest.raises(Exception, match="Reshape"):
        called(SOURCE_ATTENTION, inputs, {}, kernel=False, **attributes_of(shape))


# --- Sampling ----------------------------------------------------------------------------------


needs_sampling = pytest.mark.skipif(
    SamplingKernels is NumpyVocabOps, reason="built without Python's headers"
)

ROWS = arrays.arrays(
    np.float32,
    st.integers(1, 700),
    elements=st.one_of(
        st.integers(-160, 160).map(lambda n: n / 16), st.sampled_from([-np.inf, 1e-30, 88.0])
    ),
)


@needs_sampling
@given(ROWS)
def test_the_arg_max_is_the_first_of_equal_maxima(row):
    assert SamplingKernels().arg_max(row) == int(row.argmax())


@needs_sampling
@given(ROWS, st.integers(0, 699))
def test_a_nan_is_the_arg_max(row, index):
    row[index % len(row)] = np.nan
    assert SamplingKernels().arg_max(row) == int(row.argmax())


@needs_sampling
@given(ROWS.filter(lambda row: np.isfinite(row.max())), st.sampled_from([0.3, 1.0, 2.5]))
def test_weights_differ_from_those_of_numpy_by_rounding(row, temperature):
    ours, theirs = np.empty_like(row), np.empty_like(row)
    totals = [
        arithmetic.exp_weights(row, float(row.max()), temperature, out)
        for arithmetic, out in ((SamplingKernels(), ours), (NumpyVocabOps(), theirs))
    ]
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-37)
    assert totals[0] == pytest.approx(float(ours.sum(dtype=np.float64)), rel=1e-12)
    assert totals[0] == pytest.approx(totals[1], rel=2e-5)


WEIGHTS = arrays.arrays(
    np.float32, st.integers(1, 700), elements=st.sampled_from([0.0, 0.0, 1.0, 3.0, 0.125])
).filter(lambda row: row.any())


POWERS_OF_TWO = arrays.arrays(
    np.float32, st.integers(1, 700), elements=st.sampled_from([*range(-9, 1), -200, -np.inf])
).filter(lambda row: row.max() == 0)


@needs_sampling
@given(POWERS_OF_TWO, st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.999]))
def test_a_nucleus_is_the_one_that_numpy_finds(row, share):
    """The temperature turns these rows into powers of two, so the sums are exact."""
    found = []
    for arithmetic in (SamplingKernels(), NumpyVocabOps()):
        indices, weights = np.empty(len(row), np.int64), np.empty(len(row), np.float32)
        count = arithmetic.nucleus(row, 0.0, 1 / np.log(2), share, indices, weights)
        found.append((indices[:count], weights[:count]))
    (ours, our_weights), (theirs, their_weights) = found
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(our_weights, their_weights, rtol=2e-5, atol=1e-37)


@needs_sampling
def test_a_flat_distribution_has_a_nucleus_of_almost_all_tokens():
    row = np.zeros(49152, np.float32)
    indices, weights = np.empty(len(row), np.int64), np.empty(len(row), np.float32)
    assert SamplingKernels().nucleus(row, 0.0, 1.0, 0.75, indices, weights) == 36864
    np.testing.assert_array_equal(indices[:36864], np.arange(36864))


@needs_sampling
@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_one_that_numpy_makes(weights, uniform):
    """All sums of these weights are exact, so both find the same index."""
    assert SamplingKernels().draw(weights, uniform) == NumpyVocabOps().draw(weights, uniform)


@needs_sampling
def test_a_draw_with_uniform_1_is_the_last_index_with_weight():
    weights = np.zeros(1000, np.float32)
    weights[[3, 600]] = [0.1, 0.2]
    assert SamplingKernels().draw(weights, float(np.nextafter(1.0, 0))) == 600
    assert SamplingKernels().draw(weights, 1.0) == 600


@needs_sampling
@given(WEIGHTS, WEIGHTS, st.sampled_from([1.0, 0.5]), st.randoms(use_true_random=False))
def test_an_excess_equals_that_of_numpy(p, q, factor, random):
    indices = np.array(sorted(random.sample(range(1400), len(q))), np.int64)
    np.testing.assert_array_equal(
        SamplingKernels().excess(p, factor, q, indices),
        NumpyVocabOps().excess(p, factor, q, indices),
    )


@needs_sampling
def test_an_excess_takes_indices_of_any_integer_type_and_stride():
    p, q = np.full(40, 0.025, np.float32), np.full(3, 0.1, np.float32)
    for indices in (np.array([1, 5, 9], np.int32), np.arange(6)[::2]):
        expected = NumpyVocabOps().excess(p, 1, q, indices)
        np.testing.assert_array_equal(vocab_ops_for(p, q).excess(p, 1, q, indices), expected)


@needs_sampling
@pytest.mark.parametrize(("switch", "kernels"), [("0", False), ("1", True)])
def test_vocabulary_operations_by_kernels_are_switched_off_when_edgespec_is_imported(
    switch, kernels
):
    code = "from edgespec.core import vocab_ops; print(vocab_ops.KERNELS is not None)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, SWITCH: switch},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(kernels)


@needs_sampling
def test_the_sampling_loop_reads_no_environment(monkeypatch):
    process = Sampling(temperature=0.8, top_p=0.9).processor()
    q = one_hot(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", None)  # reading it would fail
        p = process(np.linspace(0, 3, 64, dtype=np.float32))
        assert Seeded(0).categorical(residual(p, q), 0) < 64


@needs_sampling
def test_numbers_other_than_float32_are_left_to_numpy(rng):
    row = rng.normal(size=64).astype(np.float32)
    assert isinstance(vocab_ops_for(row), SamplingKernels)
    for other in (row.astype(np.float64), row[::2], np.array([Fraction(1, 3)])):
        assert isinstance(vocab_ops_for(other), NumpyVocabOps)
    assert isinstance(vocab_ops_for(row, row.astype(np.float64)), NumpyVocabOps)
    assert isinstance(
        vocab_ops_for(row, np.ones(1, np.int64)), SamplingKernels
    )  # of a determined token


# --- Names ---------------------------------------------------------------------------------------


ROUNDED = "Abs ReduceMax Mul Max Div QuantizeLinear"
SCALED = "MatMulInteger Cast Mul Mul"
VALID = "TensorScatter Slice"
ALL_VALID = "TensorScatter TensorScatter Slice Slice"  # numbers and scales
BY_HEAD = "Shape Concat Reshape Transpose"
NARROW_START = "Reshape Cast Concat Cast Add Shape Sub Shape Shape"
CAUSAL = "Reshape Reshape Range Range Unsqueeze LessOrEqual Where"
QUERIES = f"{BY_HEAD} Shape Concat Shape Concat Reshape"
WEIGHED = "Shape Shape Concat Reshape Add Softmax Concat Reshape"
NARROW_END = "Cast MatMul Reshape Transpose Shape Reshape"
ROTATED_ROWS = "Unsqueeze RotaryEmbedding Squeeze Unsqueeze RotaryEmbedding Squeeze"


def narrow_bodies(before, bias):
    """The bodies of attention over a float16 and over an int8 cache."""
    rounded, stored = f"{BY_HEAD} Cast {VALID}", f"{BY_HEAD} {ROUNDED} {ALL_VALID}"
    start, middle = f"{before}{NARROW_START}", f"{CAUSAL} {bias}{QUERIES} Cast Transpose MatMul Mul"
    return {
        "fp16": f"{start} {rounded} {rounded} {middle} {WEIGHED} {NARROW_END}",
        "int8": f"{start} {stored} {stored} {middle} Transpose Mul {WEIGHED} Transpose Mul "
        f"{NARROW_END}",
    }


BODIES = [
    (INT8_MATMUL, {}, f"{ROUNDED} {SCALED}"),
    (
        RMS_NORM_INT8_MATMUL,
        {"epsilon": 1e-5, "step": 0.1},
        f"RMSNormalization QuantizeLinear {SCALED}",
    ),
    (
        HADAMARD_INT8_MATMUL,
        {"blocks": [-1, 2], "rows": [-1, 4]},
        f"Reshape MatMul Reshape {ROUNDED} {SCALED}",
    ),
    (
        RMS_NORM_HADAMARD_INT8_MATMUL,
        {"epsilon": 1e-5, "blocks": [-1, 2], "rows": [-1, 4]},
        f"RMSNormalization Reshape MatMul Reshape {ROUNDED} {SCALED}",
    ),
    (FLOAT16_MATMUL, {}, "Cast Gemm"),
    (BFLOAT16_MATMUL, {}, "Cast Gemm"),
    (INT8_EMBEDDING, {}, "Gather Cast Gather Unsqueeze Mul"),
    (HADAMARD_ROTATION, {"blocks": [-1, 2], "rows": [-1, 4]}, "Reshape MatMul Reshape"),
    (
        INT8_HEAD,
        {"epsilon": 1e-5, "blocks": [-1, 2], "rows": [-1, 4]},
        "Reshape MatMul Reshape RMSNormalization Transpose Reshape MatMul Reshape "
        f"{ROUNDED} {SCALED} Min Shape Mul Slice Max Slice Mul Sub Max TopK Slice Slice Div Mul "
        "Max Slice ReduceMax Sub Exp ReduceSum Slice Slice Sub Exp Div",
    ),
    (
        SELF_ATTENTION["Rotary"]["fp32"],
        attributes_of((2, 1, 16)),
        "Unsqueeze Unsqueeze Unsqueeze RotaryEmbedding RotaryEmbedding "
        "Reshape Cast Concat Pad Pad Pad Add Add GroupQueryAttention Slice Squeeze",
    ),
    (
        SELF_ATTENTION["Biased"]["fp32"],
        attributes_of((2, 1, 16)),
        "Unsqueeze Unsqueeze Unsqueeze Reshape Cast Concat "
        "Pad Pad Pad Add Add Pad GroupQueryAttention Slice Squeeze",
    ),
    *(
        (functions[cache], attributes_of((2, 1, 16), functions[cache]), body)
        for functions, bodies in (
            (SELF_ATTENTION["Rotary"], narrow_bodies(f"{ROTATED_ROWS} ", "")),
            (SELF_ATTENTION["Biased"], narrow_bodies("", "Add ")),
        )
        for cache, body in bodies.items()
    ),
    (
        SOURCE_ATTENTION,
        attributes_of((2, 2, 16)),
        "Reshape Unsqueeze Pad MultiHeadAttention Concat Slice Squeeze",
    ),
    (
        ENCODER_ATTENTION,
        attributes_of((2, 2, 16)),
        "Unsqueeze Unsqueeze Unsqueeze MultiHeadAttention Squeeze",
    ),
    (RMS_NORM, {"epsilon": 1e-5}, "RMSNormalization"),
    (GATES["silu"], {}, "Sigmoid Mul Mul"),
    (GATES["gelu_new"], {}, "Gelu Mul"),
    (RELU, {}, "Relu"),
    *(
        (
            fused.whole,
            {n: [1] * fused.columns if n == "widths" else 1.0 for n in fused.whole.attributes},
            f"{fused.opening.name} {'Sum ' * fused.has_bias}"
            f"{'Split ' * (fused.columns > 1)}{fused.inner.name} "
            f"{fused.closing.name} {'RMSNorm ' * bool(fused.post_norm)}Add",
        )
        for fused in BLOCKS.values()
    ),
]


@pytest.mark.parametrize(("function", "attributes", "body"), BODIES, ids=lambda v: str(v)[:20])
def test_a_body_that_changes_needs_a_new_operator_name(function, attributes, body):
    """A kernel is found by its name alone, and an older one would go on with the old meaning: give
    the function another name, write its kernel, and then change this list. A body that computes the
    same in another way keeps its name."""
    nodes = (node.op_type for node in function.built(attributes))
    assert " ".join(node for node in nodes if node != "Constant") == body


# --- Whole models ------------------------------------------------------------------------------


def test_row_invariance_is_measured_again_with_other_kernels(monkeypatch):
    with_kernels = machine_of(Device(1)).digest
    monkeypatch.setenv(SWITCH, "0")
    assert machine_of(Device(1)).digest != with_kernels
    assert installed_kernels() is None


def test_a_library_for_another_system_is_not_used(monkeypatch):
    import edgespec_kernels

    def fail():
        raise OSError("wrong ELF class")

    monkeypatch.setattr(edgespec_kernels, "target", fail)
    assert _installed.__wrapped__(None) is None


def test_kernels_that_are_too_old_are_not_used(monkeypatch):
    import edgespec_kernels

    monkeypatch.setattr(edgespec_kernels, "__version__", "0.4.9")
    assert _installed.__wrapped__(None) is None


def test_providers_names_them(monkeypatch):
    name = installed_kernels().name
    assert name in run("providers").output
    monkeypatch.setenv(SWITCH, "0")
    assert name not in run("providers").output


def test_plain_steps_of_an_int8_target_need_no_padding(own_checkpoints, tmp_path):
    """ONNX Runtime's own attention has another kernel for one position, and so a step takes two."""
    target, draft = map(str, own_checkpoints)
    export_pair(target, draft, tmp_path / "pair", target_formats=["int8"], threads=1)
    found = read_manifest(tmp_path / "pair").target.variants["int8"].row_invariance
    assert found.is_row_invariant
    assert found.min_rows == 1


@pytest.mark.parametrize("format_", ["fp32", "int8"])
def test_a_model_with_kernels_differs_from_one_without_by_rounding(
    own_checkpoints, tmp_path, monkeypatch, format_
):
    target, draft = own_checkpoints
    export_pair(str(target), str(draft), tmp_path / "pair", target_formats=[format_], measure=False)
    tokens = list(b"As near as rounding allows.")
    logits = []
    for switch in "10":
        monkeypatch.setenv(SWITCH, switch)
        manifest = read_manifest(tmp_path / "pair")
        model = open_model(tmp_path / "pair", manifest.target, format_, device=Device(1))
        logits.append(model.score(tokens))
    ours, theirs = logits
    near = 1e-4 if format_ == "fp32" else 0.05
    assert np.abs(ours - theirs).max() < near * np.abs(theirs).max()


@pytest.mark.parametrize("cache", CACHE_FORMATS)
def test_a_prompt_of_a_fused_model_has_the_same_bits_in_pieces_of_any_size(
    tmp_path, monkeypatch, cache
):
    """Without kernels the size of the pieces is part of the contract (prefill.py)."""
    sizes = {"vocab_size": 272, "head_size": 16, "width": 64, "inner": 128}
    sizes |= {"tokenizer": byte_tokenizer(272), "max_position_embeddings": 1024}
    checkpoint = write_llama(tmp_path / "c", **sizes)
    export_pair(
        str(checkpoint),
        None,
        tmp_path / "pair",
        target_formats=["int8"],
        cache_formats=[cache],
        measure=False,
    )
    exported = read_manifest(tmp_path / "pair").target
    (name,) = exported.variants
    model = open_model(tmp_path / "pair", exported, name, capacity=700, device=Device(2))
    prompt = [int(token) for token in np.random.default_rng(0).integers(272, size=600)]
    logits = []
    for rows in (256, 100, 33, 600):
        monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", rows)
        last = model.prefill(prompt)
        logits.append(model.score([last, 7, 8]))
    for other in logits[1:]:
        np.testing.assert_array_equal(other, logits[0])


def test_kernels_that_are_too_old_are_named_and_not_used(monkeypatch, caplog):
    monkeypatch.setattr("edgespec_kernels.__version__", "0.1.0")
    _installed.cache_clear()
    try:
        assert installed_kernels() is None
        assert "edgespec-kernels 0.1.0 is older than" in caplog.text
    finally:
        _installed.cache_clear()
