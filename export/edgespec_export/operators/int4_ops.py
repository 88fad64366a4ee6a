"""Products of rows rounded to 8 bits with weights in 4 bits, both in groups, as ONNX functions.

`GROUP` inputs are a group. A weight is code · scale + minimum. Weights are uint8
[out, groups, GROUP / 2], two codes in a byte, the first in its low half: the layout of ONNX
Runtime's `MatMulNBits`; scales and minimums are float16 [out, groups]. A kernel adds the groups of
an output in order, with d the row's scale in the group and v its whole numbers:

    y = fma(fma(Σ v, minimum, float(Σ v · code) · scale), d, y)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.grouped_rows import GROUP, rounded_groups
from edgespec_export.operators.int8_ops import normed_rows

__all__ = ["INT4_MATMUL", "RMS_NORM_INT4_MATMUL"]

ZERO_POINT = 8  # of `MatMulNBits`, if none is given


def _int4_matmul(
    f: Body, x: ir.Value, weights: ir.Value, scale: ir.Value, minimum: ir.Value
) -> Sequence[ir.Value]:
    """rounded x · (ZERO_POINT-based weights) + (sums of groups of x) · the rest of the minimums."""
    rounded = rounded_groups(f, x)
    scale, minimum = (f.op.Cast(value, to=ir.DataType.FLOAT) for value in (scale, minimum))
    (product,) = f.contrib(
        "MatMulNBits",
        [f.op.Reshape(rounded, f.ints(0, -1)), weights, f.op.Reshape(scale, f.ints(-1))],
        outputs=1,
        K=f.given("k", at="K"),
        N=f.given("n", at="N"),
        bits=4,
        block_size=GROUP,
    )
    sums = f.op.ReduceSum(rounded, f.ints(-1), keepdims=0)
    rest = f.op.Add(minimum, f.op.Mul(scale, f.constant(ZERO_POINT, np.float32)))
    return [f.op.Add(product, f.op.MatMul(sums, f.op.Transpose(rest, perm=[1, 0])))]


def _rms_norm_int4_matmul(
    f: Body,
    x: ir.Value,
    norm: ir.Value,
    weights: ir.Value,
    scale: ir.Value,
    minimum: ir.Value,
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm · weights."""
    return _int4_matmul(f, normed_rows(f, x, norm), weights, scale, minimum)


INT4_MATMUL = Function("Int4MatMul", _int4_matmul)
RMS_NORM_INT4_MATMUL = Function("RMSNormInt4MatMul", _rms_norm_int4_matmul)
