"""Claim: a gated delta rule is what its operator's body makes, and no bit depends on the calls.

Of the kernel and of the body each: a position has the same bits in any call, and so has a state.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgespec_export.operators.delta_ops import GATED_DELTA
from operator_calls import has_kernel

WITH_KERNEL = pytest.param(
    True, marks=pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
)
HEADS = {
    "as many keys as values": {"k_heads": 2, "v_heads": 2, "key_size": 16, "value_size": 16},
    "shared keys, other sizes": {"k_heads": 2, "v_heads": 6, "key_size": 24, "value_size": 40},
    "few numbers": {"k_heads": 1, "v_heads": 3, "key_size": 5, "value_size": 3},
}
TAPS, RECENT = 4, 16


def sizes(heads):
    """Channels and numbers of a state."""
    v_width = heads["v_heads"] * heads["value_size"]
    channels = 2 * heads["k_heads"] * heads["key_size"] + v_width
    return channels, v_width * heads["key_size"] + (TAPS - 1) * channels


def inputs_of(rng, heads, count):
    channels, state = sizes(heads)
    v_heads = heads["v_heads"]
    shapes = {
        **{"qkv": (count, channels), "write": (count, v_heads), "forget": (count, v_heads)},
        **{"convolution": (TAPS, channels), "decay": (v_heads,), "forget_bias": (v_heads,)},
        **{"past_state": (state,), "past_rows": (1, RECENT, channels + 2 * v_heads)},
    }
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    inputs["decay"] = -np.abs(inputs["decay"])
    return inputs


def at(inputs, rows, state, past, kept):
    """One call's inputs: some of the rows, and the three lengths."""
    lengths = {"state_length": state, "past_length": past, "kept_length": kept}
    cut = {name: inputs[name][rows] for name in ("qkv", "write", "forget")}
    return {**inputs, **cut, **{name: np.array([n], np.int64) for name, n in lengths.items()}}


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(("past", "kept"), [(0, 0), (5, 5), (5, 9), (3, 3 + RECENT - 6)])
def test_a_kernel_computes_what_the_body_computes(called, rng, heads, past, kept):
    count = RECENT - 6
    inputs = at(inputs_of(rng, heads, count), slice(None), 0, past, kept)
    ours = called(GATED_DELTA, inputs, {}, **heads)
    theirs = called(GATED_DELTA, inputs, {}, kernel=False, **heads)
    for our, their in zip(ours, theirs, strict=True):
        assert np.abs(our - their).max() <= 2e-5 * max(1, np.abs(their).max())
    np.testing.assert_array_equal(ours[2], theirs[2])  # rows are copied


@pytest.mark.parametrize("kernel", [WITH_KERNEL, False])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_cuts_between_calls_change_no_bit(called, rng, heads, kernel):
    """One call, against calls that go through some positions once more and drop others."""
    inputs = inputs_of(rng, heads, 12)
    whole = at(inputs, slice(None), 0, 0, 12)
    expected, state, _ = called(GATED_DELTA, whole, {}, kernel=kernel, **heads)
    rows = []
    state_length = past = 0
    for kept, dropped in ((3, 0), (1, 4), (2, 3), (1, 0), (5, 2)):
        given = at(inputs, slice(past, past + kept), state_length, past, past)
        other = inputs_of(rng, heads, dropped)
        for name in ("qkv", "write", "forget"):
            given[name] = np.concatenate([given[name], other[name]])
        y, after, recent = called(GATED_DELTA, given, {}, kernel=kernel, **heads)
        inputs |= {"past_state": after, "past_rows": recent}
        rows.append(y[:kept])
        state_length, past = past, past + kept
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    last = at(inputs, slice(11, 12), state_length, 11, 12)
    _, found, _ = called(GATED_DELTA, last, {}, kernel=kernel, **heads)
    np.testing.assert_array_equal(found, state)


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((5, 4, 5), "states of 5 positions and of 5 in a call of positions 4 to 6"),
        ((4, 4, 3), "states of 4 positions and of 3"),
        ((0, 4, 8), "states of 0 positions and of 8"),
        ((0, RECENT + 1, RECENT + 4), f"with {RECENT} kept"),
        ((0, RECENT - 2, RECENT - 2), f"with {RECENT} kept"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(called, rng, lengths, message):
    heads = HEADS["few numbers"]
    inputs = at(inputs_of(rng, heads, 3), slice(None), *lengths)
    with pytest.raises(Exception, match=message):
        called(GATED_DELTA, inputs, {}, **heads)


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
def test_a_number_that_is_none_stays_in_its_head(called, rng):
    heads = HEADS["as many keys as values"]
    inputs = at(inputs_of(rng, heads, 4), slice(None), 0, 0, 0)
    inputs["write"][1, 0] = np.nan
    y, *_ = called(GATED_DELTA, inputs, {}, **heads)
    size = heads["value_size"]
    assert np.isfinite(y[0]).all()
    assert np.isfinite(y[:, size:]).all()
    assert np.isnan(y[1:, :size]).all()
