"""Products of rows rounded to 8 bits with weights in 8 bits, as functions of their own.

A row's scale is its own, so rows do not mix, unlike with the per-tensor scale of dynamic
quantization. Scales are applied behind the integer product as f · (s_a · s_b), the form that ONNX
Runtime fuses. Weights are int8 [in, out], scales float32 [out]; rows [m, in].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = [
    "HEAD",
    "NORMED_PRODUCT",
    "PRODUCT",
    "TABLE_ROWS",
    "TURNED_PRODUCT",
    "TURNED_ROWS",
]


def _product(f: Body, x: ir.Value, weights: ir.Value, scale: ir.Value) -> Sequence[ir.Value]:
    """Each row has the scale that makes its largest number ±127."""
    largest = f.op.ReduceMax(f.op.Abs(x), f.ints(-1), keepdims=1)
    row_scale = f.op.Mul(largest, f.constant(1 / 127, np.float32))
    row_scale = f.op.Max(row_scale, f.constant(1e-30, np.float32))  # a row may be all zeros
    # Divided first: a scale for each row would want a zero point for each row.
    rows = f.op.QuantizeLinear(
        f.op.Div(x, row_scale), f.constant(1, np.float32), f.constant(128, np.uint8)
    )
    return [_scaled(f, rows, row_scale, weights, scale)]


def _head(
    f: Body,
    x: ir.Value,
    norm: ir.Value,
    hadamard: ir.Value,
    table: ir.Value,
    scale: ir.Value,
    choose: ir.Value,
) -> Sequence[ir.Value]:
    """Logits behind a norm, or their arg-max; weights are as an embedding has them, [V, width].

    The stream is turned back for the norm's weights, and forth again: other readers of a norm take
    its weights into themselves, a table that is looked up in cannot. Where `choose` is 0 there are
    all logits [rows, V], where it is 1 the token of the largest one and this [rows, 1], where it is
    2 the three largest ones' [rows, 3] and their probabilities; what is not asked for has no rows.
    """
    normed = f.op.RMSNormalization(
        _turned(f, x, hadamard), norm, axis=-1, epsilon=f.given("epsilon")
    )
    # ONNX Runtime transposes the table once, when it loads the graph.
    weights = f.op.Transpose(table, perm=[1, 0])
    (logits,) = _product(f, _turned(f, normed, hadamard), weights, scale)
    asked = f.op.Mul(f.op.Min(choose, f.ints(1)), f.op.Shape(logits))  # [rows, V], or 0 and 0
    count = _first(f, asked, f.ints(1))
    # Before 1.31 the largest of no rows ended the process.
    some = f.op.Slice(logits, f.ints(0, 0), f.op.Max(asked, f.ints(1)))
    best = f.op.Max(f.op.Sub(f.op.Mul(choose, f.ints(2)), f.ints(1)), f.ints(1))
    highest, tokens = (_first(f, x, count) for x in f.largest(some, best))
    sure = f.op.Mul(f.op.Div(choose, f.ints(2)), count)
    top, kept = _first(f, some, sure), _first(f, highest, sure)
    largest = f.op.ReduceMax(top, f.ints(1))
    total = f.op.ReduceSum(f.op.Exp(f.op.Sub(top, largest)), f.ints(1))
    return [
        f.op.Slice(logits, count, f.ints(np.iinfo(np.int64).max), f.ints(0)),
        tokens,
        highest,
        f.op.Div(f.op.Exp(f.op.Sub(kept, largest)), total),
    ]


def _first(f: Body, x: ir.Value, count: ir.Value) -> ir.Value:
    """So many of its rows."""
    return f.op.Slice(x, f.ints(0), count, f.ints(0))


def _table_rows(f: Body, tokens: ir.Value, table: ir.Value, scale: ir.Value) -> Sequence[ir.Value]:
    """Rows [m, width] of a table [V, width], each times its scale."""
    rows = f.op.Cast(f.op.Gather(table, tokens, axis=0), to=ir.DataType.FLOAT)
    return [f.op.Mul(rows, f.op.Unsqueeze(f.op.Gather(scale, tokens), f.ints(1)))]


def _turned_rows(f: Body, x: ir.Value, hadamard: ir.Value) -> Sequence[ir.Value]:
    return [_turned(f, x, hadamard)]


def _normed_product(
    f: Body, x: ir.Value, norm: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm, rounded with one scale, `step`, for all rows."""
    normed = f.op.RMSNormalization(x, norm, axis=-1, epsilon=f.given("epsilon"))
    step = f.number("step")
    rows = f.op.QuantizeLinear(normed, step, f.constant(128, np.uint8))
    return [_scaled(f, rows, step, weights, scale)]


def _turned_product(
    f: Body, x: ir.Value, hadamard: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """Rows are turned first."""
    return _product(f, _turned(f, x, hadamard), weights, scale)


def _turned(f: Body, x: ir.Value, hadamard: ir.Value) -> ir.Value:
    """Block by block (`rotation.turned`); `blocks` and `rows` are the shapes [-1, block] and
    [-1, in]."""
    blocks = f.op.MatMul(f.op.Reshape(x, f.shape("blocks")), hadamard)
    return f.op.Reshape(blocks, f.shape("rows"))


def _scaled(
    f: Body, rows: ir.Value, row_scale: ir.Value, weights: ir.Value, scale: ir.Value
) -> ir.Value:
    """Rows are unsigned, around 128: products of these with signed weights are the fast ones."""
    product = f.op.MatMulInteger(rows, weights, f.constant(128, np.uint8))
    product = f.op.Cast(product, to=ir.DataType.FLOAT)
    return f.op.Mul(product, f.op.Mul(row_scale, scale))


PRODUCT = Function("Int8MatMul", _product)
HEAD = Function("Int8Head", _head)
NORMED_PRODUCT = Function("RMSNormInt8MatMul", _normed_product)
TABLE_ROWS = Function("Int8Embedding", _table_rows)
TURNED_ROWS = Function("HadamardRotation", _turned_rows)
TURNED_PRODUCT = Function("HadamardInt8MatMul", _turned_product)
