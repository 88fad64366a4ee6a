"""Claim: the kernels of attention compute what their operators' bodies compute, with each encoding
and each format of the cache, and read nothing that a row does not see.
"""

from __future__ import annotations

import numpy as np
import pytest

from attention_calls import (
    CACHE_FORMATS,
    ENCODED,
    FUNCTIONS,
    HEADS,
    KINDS,
    NARROW,
    NO_SOURCES,
    PAST,
    WINDOW,
    attributes_of,
    cached_inputs,
    in_int8,
    with_angles,
    with_bias,
    with_head_norms,
)
from depth import one_in
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.operators.attention.attention_ops import ENCODER_ATTENTION, SOURCE_ATTENTION
from edgespec_export.operators.attention.self_attention_ops import SELF_ATTENTION
from edgespec_export.operators.norm_ops import RMS_NORM
from operator_calls import MANY

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")
TOLERANCES = {"fp32": 3e-6, "fp16": 1e-3, "int8": 2e-2}  # rotated keys may be rounded otherwise


@one_in(5)
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


@one_in(2)
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
