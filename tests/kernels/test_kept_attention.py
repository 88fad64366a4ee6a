"""Claim: attention to what another layer wrote has the bits of that layer's own attention, with
each format of the cache, and computes what the operator's body computes.
"""

from __future__ import annotations

import numpy as np
import pytest

from attention_calls import (
    CACHE_FORMATS,
    FUNCTIONS,
    HEADS,
    PAST,
    WINDOW,
    attributes_of,
    cached_inputs,
    complete_for,
    joined,
)
from depth import one_in
from edgespec_export.operators.attention.kept_attention import KEPT_ATTENTION
from operator_calls import has_kernel

pytestmark = pytest.mark.skipif(
    not has_kernel(KEPT_ATTENTION["fp32"]), reason="there are no kernels of this version here"
)
SHAPES = {name: HEADS[name] for name in ("SmolLM2", "one key head")}
CASES = [(1, 0), (5, 530)]


def kept_attributes(shape, window):
    attributes = attributes_of(shape, KEPT_ATTENTION["fp32"])
    return attributes | {"window": window}


def unrotated(inputs):
    """Angles of 0: queries and keys are taken as they are."""
    return inputs | {"cos": np.ones_like(inputs["cos"]), "sin": np.zeros_like(inputs["sin"])}


def written(called, inputs, shape, cache, encoding):
    """The result of the layer that writes, and the cache after it."""
    function = FUNCTIONS[encoding, cache]
    y, *present = called(function, inputs, {}, **attributes_of(shape, function))
    names = [name for name in inputs if name.startswith("past_")]
    names = [*PAST, *(name for name in names if name not in PAST)]
    return y, dict(zip(names, present, strict=True))


def reading(inputs, buffers):
    calls = ("q", "last", "total", "layouts")
    return {name: inputs[name] for name in calls} | buffers


@one_in(2)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("cache", CACHE_FORMATS)
@pytest.mark.parametrize(("encoding", "window"), [("Rotary", 2**31 - 1), ("Windowed", WINDOW)])
@pytest.mark.parametrize(("count", "past"), CASES)
def test_it_has_the_bits_of_the_layer_that_wrote(
    called, rng, shape, cache, encoding, window, count, past
):
    inputs = cached_inputs(rng, shape, count, past, past + count + 3)
    inputs = unrotated(complete_for(encoding, cache)(rng, inputs, shape))
    expected, buffers = written(called, inputs, shape, cache, encoding)
    given = reading(inputs, buffers)
    (y,) = called(KEPT_ATTENTION[cache], given, {}, **kept_attributes(shape, window))
    np.testing.assert_array_equal(y, expected)
    given |= {name: np.nan_to_num(value) for name, value in buffers.items()}
    (body,) = called(
        KEPT_ATTENTION[cache], given, {}, kernel=False, **kept_attributes(shape, window)
    )
    np.testing.assert_allclose(y, body, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cache", CACHE_FORMATS)
def test_rows_of_several_texts_have_the_bits_that_they_have_alone(called, rng, cache):
    shape = HEADS["one key head"]
    complete = complete_for("Windowed", cache)
    alone, call, rows, _ = joined(rng, complete, shape, [(60, 3), (5, 2), (0, 4)])
    _, buffers = written(called, unrotated(call), shape, cache, "Windowed")
    attributes = kept_attributes(shape, WINDOW)
    (y,) = called(KEPT_ATTENTION[cache], reading(call, buffers), {}, **attributes)
    for text, inputs in enumerate(alone):
        _, own = written(called, unrotated(inputs), shape, cache, "Windowed")
        (expected,) = called(KEPT_ATTENTION[cache], reading(inputs, own), {}, **attributes)
        found = [y[row] for row, (number, _) in enumerate(rows) if number == text]
        order = [r for number, r in rows if number == text]
        np.testing.assert_array_equal(found, expected[order])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"last": np.array([9], np.int32)}, "positions 8 to 9 in a cache of 9"),
        ({"layouts": np.array([[0, 0, 9]])}, "index 9"),
        ({"past_value": np.zeros((1, 1, 5, 16), np.float32)}, "differ in capacity"),
    ],
)
def test_a_call_beyond_the_cache_is_refused(called, rng, wrong, said):
    shape = HEADS["one key head"]
    inputs = cached_inputs(rng, shape, 2, 4, 9)
    given = reading(inputs, {name: np.zeros((1, 1, 9, 16), np.float32) for name in PAST}) | wrong
    with pytest.raises(Exception, match=said):
        called(KEPT_ATTENTION["fp32"], given, {}, **kept_attributes(shape, WINDOW))
