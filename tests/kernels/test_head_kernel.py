"""Claim: the head returns the logits, or the top tokens among them, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import one_in
from edgespec.artifact.graph_io import TOP_K
from edgespec.device.kernels import installed_kernels
from edgespec_export.operators.int8_ops import INT8_HEAD
from operator_calls import MANY, head_of, rows_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


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


@one_in(2)
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
