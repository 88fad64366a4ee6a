"""Claim: the kernel of a convolution has the bits of its body, whatever else is in a call.

A row's bits are those that it has in a call of any size, as a candidate, and in a call with rows of
other sequences.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from attention_calls import buffers_of
from convolution_calls import PAST, TAPS, convolution_inputs
from edgespec.device.kernels import installed_kernels
from edgespec_export.operators.convolution_ops import SHORT_CONVOLUTION

kernels = installed_kernels()
pytestmark = pytest.mark.skipif(kernels is None, reason="there are no kernels here")
FUNCTIONS = {function.name: function for function in SHORT_CONVOLUTION.values()}
ROWS = ("before", "after", "x")


def rows_of(inputs, rows, past, buffers):
    """The call of some rows of a call, whose first one is at position `past`."""
    part = {name: inputs[name][rows] for name in ROWS} | buffers
    total = past + len(part["x"])
    part |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    return part | {"layouts": inputs["layouts"][:0], "factors": inputs["factors"]}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("past", [0, 2, PAST])
def test_the_kernel_has_the_bits_of_its_body(called, rng, name, past):
    function = FUNCTIONS[name]
    inputs = convolution_inputs(rng, function, 9, past)
    ours = called(function, inputs, {}, taps=TAPS)
    theirs = called(function, inputs, {}, kernel=False, taps=TAPS)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for mine, expected in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_array_equal(mine[:, :, : past + 9], expected[:, :, : past + 9])


@pytest.mark.parametrize("past", [0, 1, PAST])
def test_it_is_a_sum_over_the_positions_before(called, rng, past):
    """In float64, of one layer in float32."""
    function = SHORT_CONVOLUTION[1, "fp32"]
    inputs = convolution_inputs(rng, function, 6, past)
    (y, *_) = called(function, inputs, {}, taps=TAPS)
    width = y.shape[1]
    held = [
        inputs[name][0].transpose(1, 0, 2).reshape(-1, 32) for name in ("past_key", "past_value")
    ]
    kept = np.concatenate([np.concatenate(held, axis=1)[:past, :width],
                           inputs["before"] * inputs["x"]]).astype(np.float64)  # fmt: skip
    for row in range(6):
        seen = kept[max(0, past + row - TAPS + 1) : past + row + 1][::-1]
        expected = inputs["after"][row] * (seen * inputs["factors"][: len(seen)]).sum(axis=0)
        np.testing.assert_allclose(y[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_position_has_the_same_bits_in_calls_of_any_size(called, rng, name):
    function = FUNCTIONS[name]
    inputs = convolution_inputs(rng, function, 40)
    expected, *cache = called(function, inputs, {}, taps=TAPS)
    buffers, start = buffers_of(inputs), 0
    for threads, end in enumerate((1, 3, 8, 17, 40), start=1):
        part = rows_of(inputs, slice(start, end), PAST + start, buffers)
        out, *present = called(function, part, {}, threads=min(threads, 3), taps=TAPS)
        np.testing.assert_array_equal(out, expected[start:end])
        buffers, start = dict(zip(ordered(function), present, strict=True)), end
    for ours, theirs in zip(present, cache, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def ordered(function):
    """The buffers in the order of the outputs."""
    return [n for n in function.inputs if n.startswith("past_")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_candidate_has_the_bits_that_it_has_as_a_drafted_token(called, rng, name):
    function, line = FUNCTIONS[name], 5
    inputs = convolution_inputs(rng, function, line + 2)
    parents = [0, 3]
    inputs["layouts"] = np.array(
        [(0, PAST + parent + 1, PAST + line + i) for i, parent in enumerate(parents)], np.int64
    )
    out, *_ = called(function, inputs, {}, taps=TAPS)
    for candidate, parent in enumerate(parents):
        rows = [*range(parent + 1), line + candidate]
        part = rows_of(inputs, rows, PAST, buffers_of(inputs))
        alone, *_ = called(function, part, {}, taps=TAPS)
        np.testing.assert_array_equal(out[line + candidate], alone[parent + 1])


def test_a_candidate_that_follows_the_row_before_it_is_caught(called, rng):
    """The mutant's candidate is at the position of the row after the line."""
    function = SHORT_CONVOLUTION[1, "fp32"]
    inputs = convolution_inputs(rng, function, 5)
    inputs["layouts"] = np.array([(0, PAST + 4, PAST + 4)], np.int64)
    out, *_ = called(function, inputs, {}, taps=TAPS)
    part = rows_of(inputs, [0, 1, 4], PAST, buffers_of(inputs))
    alone, *_ = called(function, part, {}, taps=TAPS)
    assert not np.array_equal(out[4], alone[2])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_has_the_bits_that_it_has_in_a_call_of_its_own_sequence(called, rng, name):
    """Two sequences in one cache; the second one begins after the first one's room."""
    function = FUNCTIONS[name]
    calls = [convolution_inputs(rng, function, count, past) for count, past in ((3, 20), (4, 2))]
    factors = calls[0]["factors"]
    alone = [called(function, c | {"factors": factors}, {}, taps=TAPS) for c in calls]
    room = calls[0]["past_key"].shape[2]
    order = [(1, 0), (0, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3)]
    joined = {n: np.stack([calls[c][n][r] for c, r in order]) for n in ROWS}
    for name in buffers_of(calls[0]):
        joined[name] = np.concatenate([c[name] for c in calls], axis=2)
    starts, pasts = (0, room), (20, 2)
    layouts = [(starts[c], pasts[c] + r, starts[c] + pasts[c] + r) for c, r in order]
    joined |= {"layouts": np.array(layouts, np.int64), "factors": factors}
    joined |= {"last": np.array([22], np.int32), "total": np.array(23, np.int32)}
    out, *_ = called(function, joined, {}, threads=2, taps=TAPS)
    for row, (call, own) in zip(out, order, strict=True):
        np.testing.assert_array_equal(row, alone[call][0][own])


def test_what_does_not_fit_is_refused(called, rng):
    function = SHORT_CONVOLUTION[1, "fp32"]
    inputs = convolution_inputs(rng, function, 3)
    wide = {n: np.zeros((3, 65), np.float32) for n in ROWS}
    wide["factors"] = np.zeros((TAPS, 65), np.float32)
    with pytest.raises(Fail, match="keeps 65 numbers of a position in 64"):
        called(function, inputs | wide, {}, taps=TAPS)
    far = inputs | {"layouts": np.array([(0, 80, 5)], np.int64)}
    with pytest.raises(Fail, match="layout 0 has start 0, position 80"):
        called(function, far, {}, taps=TAPS)
    near = inputs | {"layouts": np.array([(0, 5, 5)], np.int64)}
    with pytest.raises(Fail, match="Reshape"):
        called(function, near, {}, kernel=False, taps=TAPS)
