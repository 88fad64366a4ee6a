"""A gated delta rule as an ONNX function (Yang et al. 2024, arXiv 2412.06464).

Each value head has a state S [key_size, value_size]. At each position it forgets a part, then
writes the value that its key should find in the place of the one that it finds, and is read:

    S ← e^g S      S ← S + k ⊗ write · (v − kᵀ S)      y = qᵀ S / √key_size

with g = decay · softplus(forget + forget_bias), write = σ(write) and unit vectors q and k; q, k and
v are a convolution over the last positions, then silu.

A state is a running product: it cannot be cut at a position, as keys and values can. So a call
takes states of `state_length` positions and goes through those up to `past_length` once more, from
inputs that are kept (docs/decisions/0045-states.md). It goes through the positions one after the
other: each has the same bits, however they are divided into calls. Only the kernel knows calls of
several sequences; the body fails on more than one step, and on layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = ["GATED_DELTA"]

LARGEST = np.iinfo(np.int64).max
NORM_EPSILON = 1e-6  # of the vectors' lengths


def _gated_delta(
    f: Body,
    qkv: ir.Value,
    write: ir.Value,
    forget: ir.Value,
    convolution: ir.Value,
    decay: ir.Value,
    forget_bias: ir.Value,
    past_state: ir.Value,
    past_rows: ir.Value,
    steps: ir.Value,
    past_length: ir.Value,
    layouts: ir.Value,
) -> Sequence[ir.Value]:
    past_length = f.op.Concat(past_length, f.op.Reshape(layouts, f.ints(0)), axis=0)  # has none
    flat = f.ints(-1)
    *_, state_length, kept_length = _pieces(f, f.op.Reshape(steps, f.ints(6)), *6 * [f.ints(1)])
    rows = f.op.Concat(qkv, write, forget, axis=1)
    end = f.op.Add(past_length, f.op.Shape(rows, end=1))
    present_rows = _kept_rows(f, rows, past_rows, past_length, kept_length)
    every = f.op.Concat(_rows_again(f, present_rows, state_length, past_length), rows, axis=0)
    scan = _Scan(every, convolution, decay, forget_bias)
    first, until_kept = scan.through(
        f,
        scan.parts_of(f, f.op.Reshape(past_state, flat)),
        f.constant(0, np.int64),
        f.op.Sub(kept_length, state_length),
    )
    skipped = f.op.Sub(kept_length, state_length)
    _, after_kept = scan.through(
        f, first, f.op.Squeeze(skipped, f.ints(0)), f.op.Sub(end, kept_length)
    )
    y = f.op.Concat(until_kept, after_kept, axis=0)
    again = f.op.Sub(past_length, state_length)
    y = f.op.Slice(y, again, f.ints(LARGEST), f.ints(0))
    present_state = f.op.Concat(*(f.op.Reshape(part, flat) for part in first), axis=0)
    return [y, f.op.Unsqueeze(present_state, f.ints(0)), present_rows]


def _kept_rows(
    f: Body, rows: ir.Value, past_rows: ir.Value, past: ir.Value, kept: ir.Value
) -> ir.Value:
    """Writes the inputs of the call's positions from `kept` on, over the oldest."""
    first = f.op.Max(kept, past)
    new = f.op.Slice(rows, f.op.Sub(first, past), f.ints(LARGEST), f.ints(0))
    slot = f.op.Mod(first, f.op.Shape(past_rows, start=1, end=2))
    new = f.op.Unsqueeze(new, f.ints(0))
    return f.op.TensorScatter(past_rows, new, slot, axis=1, mode="circular")


def _rows_again(f: Body, kept_rows: ir.Value, start: ir.Value, end: ir.Value) -> ir.Value:
    """The inputs of positions start … end - 1, [n, row]."""
    scalar, one = f.constant([], np.int64), f.constant(1, np.int64)
    positions = f.op.Range(f.op.Reshape(start, scalar), f.op.Reshape(end, scalar), one)
    slots = f.op.Mod(positions, f.op.Shape(kept_rows, start=1, end=2))
    return f.op.Gather(f.op.Squeeze(kept_rows, f.ints(0)), slots, axis=0)


@dataclass(frozen=True)
class _Scan:
    """Positions, one after the other.

    Attributes:
        rows: inputs of all positions that a call goes through, [n, row].
    """

    rows: ir.Value
    convolution: ir.Value
    decay: ir.Value
    forget_bias: ir.Value

    def parts_of(self, f: Body, state: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A state as what its heads have, [v_heads, key_size, value_size], and the inputs of the
        convolution at the positions before, [taps - 1, channels]."""
        shape = f.op.Concat(*map(f.count, ("v_heads", "key_size", "value_size")), axis=0)
        size = f.op.ReduceProd(shape, f.ints(0), keepdims=1)
        heads = f.op.Reshape(f.op.Slice(state, f.ints(0), size, f.ints(0)), shape)
        before = f.op.Slice(state, size, f.ints(LARGEST), f.ints(0))
        channels = f.op.Shape(self.convolution, start=1)
        return heads, f.op.Reshape(before, f.op.Concat(f.ints(-1), channels, axis=0))

    def through(
        self, f: Body, state: Sequence[ir.Value], first: ir.Value, count: ir.Value
    ) -> tuple[Sequence[ir.Value], ir.Value]:
        """The state after `count` rows from row `first` (a scalar) on, and [count, v_width]."""

        def step(
            inner: Body, turn: ir.Value, carried: Sequence[ir.Value]
        ) -> tuple[Sequence[ir.Value], ir.Value]:
            row = inner.op.Gather(self.rows, inner.op.Add(turn, first), axis=0)
            return self._position(inner, row, *carried)

        state, y = f.loop(f.op.Squeeze(count, f.ints(0)), state, (3, 2), step)
        width = f.op.Mul(f.count("v_heads"), f.count("value_size"))
        return state, f.op.Reshape(y, f.op.Concat(f.ints(-1), width, axis=0))

    def _position(
        self, f: Body, row: ir.Value, heads: ir.Value, before: ir.Value
    ) -> tuple[Sequence[ir.Value], ir.Value]:
        """The state after one more position with the inputs `row` [row], and its y [v_width]."""
        v_heads = f.count("v_heads")
        channels = f.op.Shape(self.convolution, start=1)
        x, write, forget = _pieces(f, row, channels, v_heads, v_heads)
        seen = f.op.Concat(before, f.op.Unsqueeze(x, f.ints(0)), axis=0)
        x = f.op.ReduceSum(f.op.Mul(seen, self.convolution), f.ints(0), keepdims=0)
        x = f.op.Mul(x, f.op.Sigmoid(x))
        q, k, v = self._vectors(f, x)
        each_head = f.op.Concat(v_heads, f.ints(1, 1), axis=0)
        gain = f.op.Mul(self.decay, f.op.Softplus(f.op.Add(forget, self.forget_bias)))
        heads = f.op.Mul(heads, f.op.Reshape(f.op.Exp(gain), each_head))
        missing = f.op.Sub(v, f.op.MatMul(k, heads))
        missing = f.op.Mul(missing, f.op.Reshape(f.op.Sigmoid(write), each_head))
        heads = f.op.Add(heads, f.op.Mul(f.op.Transpose(k, perm=[0, 2, 1]), missing))
        y = f.op.Reshape(f.op.MatMul(q, heads), f.ints(-1))
        before = f.op.Slice(seen, f.ints(1), f.ints(LARGEST), f.ints(0))
        return (heads, before), y

    def _vectors(self, f: Body, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Queries and keys [v_heads, 1, key_size], values [v_heads, 1, value_size]."""
        k_heads, v_heads, size = map(f.count, ("k_heads", "v_heads", "key_size"))
        width = f.op.Mul(k_heads, size)
        q, k, v = _pieces(f, x, width, width, f.op.Mul(v_heads, f.count("value_size")))
        root = f.op.Sqrt(f.op.Cast(size, to=ir.DataType.FLOAT))
        q, k = (self._units(f, vectors) for vectors in (q, k))
        shape = f.op.Concat(v_heads, f.ints(1, -1), axis=0)
        return f.op.Div(q, root), k, f.op.Reshape(v, shape)

    def _units(self, f: Body, vectors: ir.Value) -> ir.Value:
        """Unit vectors [v_heads, 1, key_size], each of one of the key heads; neighbours share."""
        k_heads, v_heads, size = map(f.count, ("k_heads", "v_heads", "key_size"))
        x = f.op.Reshape(vectors, f.op.Concat(k_heads, f.ints(1), size, axis=0))
        squares = f.op.ReduceSum(f.op.Mul(x, x), f.ints(-1), keepdims=1)
        length = f.op.Sqrt(f.op.Add(squares, f.constant(NORM_EPSILON, np.float32)))
        every = f.op.Concat(k_heads, f.op.Div(v_heads, k_heads), size, axis=0)
        x = f.op.Expand(f.op.Div(x, length), every)
        return f.op.Reshape(x, f.op.Concat(v_heads, f.ints(1), size, axis=0))


def _pieces(f: Body, x: ir.Value, *widths: ir.Value) -> list[ir.Value]:
    """Neighbouring parts of x [n]."""
    pieces = []
    start: ir.Value = f.ints(0)
    for width in widths:
        end = f.op.Add(start, width)
        pieces.append(f.op.Slice(x, start, end, f.ints(0)))
        start = end
    return pieces


GATED_DELTA = Function("GatedDelta", _gated_delta)
