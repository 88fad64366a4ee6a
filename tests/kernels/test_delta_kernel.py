"""Claim: a gated delta rule is what its operator's body makes, and no bit depends on the calls.

Of the kernel and of the body each: a position has the same bits in any call, and so has a state. Of
the kernel also in calls with rows of other sequences.
"""

from __future__ import annotations

import numpy as np
import pytest

from attention_calls import NO_LAYOUTS
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
ROWS = ("qkv", "write", "forget")


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
        **{"past_state": (1, state), "past_rows": (1, RECENT, channels + 2 * v_heads)},
    }
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    inputs["decay"] = -np.abs(inputs["decay"])
    return inputs


def at(inputs, rows, state, past, kept):
    """One call's inputs: some of the rows, and the three lengths."""
    cut = {name: inputs[name][rows] for name in ROWS}
    steps = np.array([(0, 0, 0, 0, state, kept)], np.int64)
    lengths = {"steps": steps, "past_length": np.array([past], np.int64)}
    return {**inputs, **cut, **lengths, "layouts": NO_LAYOUTS}


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
        for name in ROWS:
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
        ((0, RECENT + 2, RECENT + 2), f"with {RECENT} kept"),
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


# --- calls of several sequences -------------------------------------------------------------------

STARTS, PASTS, COUNTS = (0, 100), (5, 2), (3, 4)  # of two sequences
ORDER = [(1, 0), (0, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3)]  # sequence and row


def shared_call(rng, heads):
    """A call of two sequences in one memory of five slots, and the calls that each has alone."""
    alone = []
    for past, count in zip(PASTS, COUNTS, strict=True):
        alone.append(at(inputs_of(rng, heads, count), slice(None), past - 2, past, past))
    weights = {name: alone[0][name] for name in ("convolution", "decay", "forget_bias")}
    alone = [call | weights for call in alone]
    joined = {name: np.stack([alone[s][name][r] for s, r in ORDER]) for name in ROWS}
    joined["past_state"] = rng.normal(size=(5, sizes(heads)[1])).astype(np.float32)
    joined["past_rows"] = np.concatenate([call["past_rows"] for call in alone])
    taken, made = (1, 4), (2, 3)
    steps = []
    for number, (start, past) in enumerate(zip(STARTS, PASTS, strict=True)):
        joined["past_state"][taken[number]] = alone[number]["past_state"]
        steps.append((start, number, taken[number], made[number], past - 2, past))
    layouts = [(STARTS[s], PASTS[s] + r, STARTS[s] + PASTS[s] + r) for s, r in ORDER]
    joined |= {"steps": np.array(steps, np.int64), "layouts": np.array(layouts, np.int64)}
    return joined | weights | {"past_length": np.array([9], np.int64)}, alone, made


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_a_sequence_has_the_bits_that_it_has_alone(called, rng, heads):
    joined, alone, made = shared_call(rng, heads)
    y, states, recent = called(GATED_DELTA, joined, {}, **heads)
    for number, call in enumerate(alone):
        own, state, rows = called(GATED_DELTA, call, {}, threads=1, **heads)
        mine = [index for index, (sequence, _) in enumerate(ORDER) if sequence == number]
        np.testing.assert_array_equal(y[mine], own)
        np.testing.assert_array_equal(states[made[number]], state[0])
        np.testing.assert_array_equal(recent[number], rows[0])
    untouched = [slot for slot in range(5) if slot not in made]
    np.testing.assert_array_equal(states[untouched], joined["past_state"][untouched])


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
def test_states_of_another_sequence_are_found(called, rng):
    """The mutant takes each other's slots."""
    heads = HEADS["as many keys as values"]
    joined, alone, _ = shared_call(rng, heads)
    joined["steps"][:, 2] = joined["steps"][::-1, 2]
    y, *_ = called(GATED_DELTA, joined, {}, **heads)
    own, *_ = called(GATED_DELTA, alone[0], {}, **heads)
    assert (y[[1, 3, 4]] != own).any(axis=1).all()


@pytest.mark.skipif(not has_kernel(GATED_DELTA), reason="there is no such kernel")
@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("layouts", (2, 1), 7, "row 2 at position 7 does not follow 2"),
        ("layouts", (2, 0), 50, "row 2 of a sequence at 50 without a step"),
        ("steps", (1, 2), 5, "states 5 and 3 of 5 slots"),
        ("steps", (0, 1), 2, "rows 2 of 2 sequences"),
        ("steps", (0, 4), 6, "states of 6 positions and of 5"),
    ],
)
def test_steps_that_do_not_fit_are_refused(called, rng, name, index, value, message):
    heads = HEADS["few numbers"]
    joined, *_ = shared_call(rng, heads)
    joined[name][index] = value
    with pytest.raises(Exception, match=message):
        called(GATED_DELTA, joined, {}, **heads)


@pytest.mark.parametrize("name", ["steps", "layouts"])
def test_the_body_fails_on_what_only_the_kernel_knows(called, rng, name):
    heads = HEADS["few numbers"]
    call = at(inputs_of(rng, heads, 3), slice(None), 0, 0, 0)
    call[name] = np.zeros((2, call[name].shape[1]), np.int64)
    with pytest.raises(Exception, match="Reshape"):
        called(GATED_DELTA, call, {}, kernel=False, **heads)
