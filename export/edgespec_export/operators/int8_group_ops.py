"""Products of rows rounded to 8 bits with weights in 8 bits, both in groups, as ONNX functions.

A weight is (code − ZERO_POINT) · scale: the numbers of GGUF's Q8_0. Codes are uint8
[out, groups, GROUP], the layout of ONNX Runtime's `MatMulNBits`; scales are float16 [out, groups].
A kernel adds the groups of an output in order, with d the row's scale in the group and v its whole
numbers:

    y = fma(float(Σ v · (code − ZERO_POINT)) · scale, d, y)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.grouped_rows import GROUP, rounded_groups
from edgespec_export.operators.int8_ops import normed_rows

__all__ = [
    "INT8_GROUP_EMBEDDING",
    "INT8_GROUP_MATMUL",
    "RMS_NORM_INT8_GROUP_MATMUL",
    "ZERO_POINT",
]

ZERO_POINT = 128  # of `MatMulNBits`, if none is given


def _int8_group_matmul(
    f: Body, x: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """rounded x · weights."""
    rounded = f.op.Reshape(rounded_groups(f, x), f.ints(0, -1))
    return f.contrib(
        "MatMulNBits",
        [rounded, weights, f.op.Reshape(f.op.Cast(scale, to=ir.DataType.FLOAT), f.ints(-1))],
        outputs=1,
        K=f.given("k", at="K"),
        N=f.given("n", at="N"),
        bits=8,
        block_size=GROUP,
    )


def _rms_norm_int8_group_matmul(
    f: Body, x: ir.Value, norm: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm · weights."""
    return _int8_group_matmul(f, normed_rows(f, x, norm), weights, scale)


def _int8_group_embedding(
    f: Body, tokens: ir.Value, table: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """The table's rows of the tokens, without rounding."""
    codes, scales = (
        f.op.Cast(f.op.Gather(numbers, tokens, axis=0), to=ir.DataType.FLOAT)
        for numbers in (table, scale)
    )
    whole = f.op.Sub(codes, f.constant(ZERO_POINT, np.float32))
    rows = f.op.Mul(whole, f.op.Unsqueeze(scales, f.ints(-1)))
    return [f.op.Reshape(rows, f.ints(0, -1))]


INT8_GROUP_MATMUL = Function("Int8GroupMatMul", _int8_group_matmul)
RMS_NORM_INT8_GROUP_MATMUL = Function("RMSNormInt8GroupMatMul", _rms_norm_int8_group_matmul)
INT8_GROUP_EMBEDDING = Function("Int8GroupEmbedding", _int8_group_embedding)
