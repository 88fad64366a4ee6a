"""Products of rows rounded to 8 bits with weights in 8 bits, as ONNX functions.

Each row has its own scale, so rows do not influence each other, as they do with the per-tensor
scale of dynamic quantization. Scales are applied after the integer product as f · (s_a · s_b), the
form that ONNX Runtime fuses. Weights are int8 [in, out], scales float32 [out], rows [m, in].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = [
    "HADAMARD_INT8_MATMUL",
    "HADAMARD_ROTATION",
    "INT8_EMBEDDING",
    "INT8_HEAD",
    "INT8_MATMUL",
    "RMS_NORM_HADAMARD_INT8_MATMUL",
    "RMS_NORM_INT8_MATMUL",
    "hadamard_int8_matmul",
    "int8_matmul",
    "normed_rows",
    "rms_norm_hadamard_int8_matmul",
    "rms_norm_int8_matmul",
    "rotated",
    "row_scales",
]


def int8_matmul(f: Body, x: ir.Value, weights: ir.Value, scale: ir.Value) -> Sequence[ir.Value]:
    """x · weights; each row of x is rounded with a scale that maps its largest number to ±127."""
    row_scale = row_scales(f, x)
    # Division first: QuantizeLinear with a scale for each row needs a zero point for each row.
    rows = f.op.QuantizeLinear(
        f.op.Div(x, row_scale), f.constant(1, np.float32), f.constant(128, np.uint8)
    )
    return [_scaled(f, rows, row_scale, weights, scale)]


def row_scales(f: Body, x: ir.Value) -> ir.Value:
    """The scale of each row [m, 1], which maps its largest number to ±127."""
    largest = f.op.ReduceMax(f.op.Abs(x), f.ints(-1), keepdims=1)
    row_scale = f.op.Mul(largest, f.constant(1 / 127, np.float32))
    return f.op.Max(row_scale, f.constant(1e-30, np.float32))  # a row may be all zeros


def _int8_head(
    f: Body,
    x: ir.Value,
    norm: ir.Value,
    hadamard: ir.Value,
    table: ir.Value,
    scale: ir.Value,
    choose: ir.Value,
) -> Sequence[ir.Value]:
    """Logits after a norm, or the top tokens. The table is that of an embedding, [V, width].

        x ─ rotate ─ RMS norm ─ rotate ─ product ─ logits [rows, V]     `choose`  outputs with rows
                                             │                              0     logits
                                             └─ TopK ─ tokens, logits       1     the top token
                                                  └─ softmax ─ probabilities  2  three top tokens

    The residual stream is rotated back for the norm's weights and then again: other matrices that
    read a norm contain its weights, but a table that is also an embedding cannot. `choose` 1 gives
    the token with the largest logit and this logit [rows, 1]; 2 gives the three tokens with the
    largest logits [rows, 3], their logits and their probabilities. Other outputs have no rows.
    """
    normed = normed_rows(f, rotated(f, x, hadamard), norm)
    # ONNX Runtime transposes the table once, when it loads the graph.
    weights = f.op.Transpose(table, perm=[1, 0])
    (logits,) = int8_matmul(f, rotated(f, normed, hadamard), weights, scale)
    asked = f.op.Mul(f.op.Min(choose, f.ints(1)), f.op.Shape(logits))  # [rows, V], or [0, 0]
    count = _first(f, asked, f.ints(1))
    # At least one row: before 1.31, ONNX Runtime's TopK of no rows ended the process, and on WebGPU
    # it refuses ReduceMax of no rows.
    some = f.op.Slice(logits, f.ints(0, 0), f.op.Max(asked, f.ints(1)))
    best = f.op.Max(f.op.Sub(f.op.Mul(choose, f.ints(2)), f.ints(1)), f.ints(1))
    highest, tokens = (_first(f, x, count) for x in f.largest(some, best))
    with_probabilities = f.op.Mul(f.op.Div(choose, f.ints(2)), count)  # rows, or 0
    top = _first(f, some, f.op.Max(with_probabilities, f.ints(1)))
    largest = f.op.ReduceMax(top, f.ints(1))
    total = f.op.ReduceSum(f.op.Exp(f.op.Sub(top, largest)), f.ints(1))
    return [
        f.op.Slice(logits, count, f.ints(np.iinfo(np.int64).max), f.ints(0)),
        tokens,
        highest,
        f.op.Div(f.op.Exp(f.op.Sub(_first(f, highest, with_probabilities), largest)), total),
    ]


def _first(f: Body, x: ir.Value, count: ir.Value) -> ir.Value:
    """The first `count` rows of x."""
    return f.op.Slice(x, f.ints(0), count, f.ints(0))


def _int8_embedding(
    f: Body, tokens: ir.Value, table: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """Rows [m, width] of a table [V, width], each times its scale."""
    rows = f.op.Cast(f.op.Gather(table, tokens, axis=0), to=ir.DataType.FLOAT)
    return [f.op.Mul(rows, f.op.Unsqueeze(f.op.Gather(scale, tokens), f.ints(1)))]


def _hadamard_rotation(f: Body, x: ir.Value, hadamard: ir.Value) -> Sequence[ir.Value]:
    return [rotated(f, x, hadamard)]


def rms_norm_int8_matmul(
    f: Body, x: ir.Value, norm: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm, rounded with one scale, `step`, for all rows."""
    step = f.number("step")
    rows = f.op.QuantizeLinear(normed_rows(f, x, norm), step, f.constant(128, np.uint8))
    return [_scaled(f, rows, step, weights, scale)]


def normed_rows(f: Body, x: ir.Value, norm: ir.Value) -> ir.Value:
    return f.op.RMSNormalization(x, norm, axis=-1, epsilon=f.given("epsilon"))


def rms_norm_hadamard_int8_matmul(
    f: Body,
    x: ir.Value,
    norm: ir.Value,
    hadamard: ir.Value,
    weights: ir.Value,
    scale: ir.Value,
) -> Sequence[ir.Value]:
    """`hadamard_int8_matmul` of x / √(mean(x²) + ε) · norm."""
    return hadamard_int8_matmul(f, normed_rows(f, x, norm), hadamard, weights, scale)


def hadamard_int8_matmul(
    f: Body, x: ir.Value, hadamard: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """`int8_matmul` of rotated rows."""
    return int8_matmul(f, rotated(f, x, hadamard), weights, scale)


def rotated(f: Body, x: ir.Value, hadamard: ir.Value) -> ir.Value:
    """Rotates block by block (`hadamard.rotated`). The attributes `blocks` and `rows` are the
    shapes [-1, block] and [-1, in]."""
    blocks = f.op.MatMul(f.op.Reshape(x, f.shape("blocks")), hadamard)
    return f.op.Reshape(blocks, f.shape("rows"))


def _scaled(
    f: Body, rows: ir.Value, row_scale: ir.Value, weights: ir.Value, scale: ir.Value
) -> ir.Value:
    """Rows are unsigned with zero point 128: with signed weights this is the fast product."""
    product = f.op.MatMulInteger(rows, weights, f.constant(128, np.uint8))
    product = f.op.Cast(product, to=ir.DataType.FLOAT)
    return f.op.Mul(product, f.op.Mul(row_scale, scale))


INT8_MATMUL = Function("Int8MatMul", int8_matmul)
INT8_HEAD = Function("Int8Head", _int8_head)
RMS_NORM_INT8_MATMUL = Function("RMSNormInt8MatMul", rms_norm_int8_matmul)
INT8_EMBEDDING = Function("Int8Embedding", _int8_embedding)
HADAMARD_ROTATION = Function("HadamardRotation", _hadamard_rotation)
HADAMARD_INT8_MATMUL = Function("HadamardInt8MatMul", hadamard_int8_matmul)
RMS_NORM_HADAMARD_INT8_MATMUL = Function("RMSNormHadamardInt8MatMul", rms_norm_hadamard_int8_matmul)
