"""Products of rows rounded to 8 bits with weights in 4 bits, as ONNX functions.

Rows are rounded as in `int8_ops`. A weight is (code − 8) · scale; `GROUP` inputs of an output share
a scale. Weights are uint8 [out, groups, GROUP / 2], two codes in a byte, the first in its low half;
scales are float16 [out, groups]: the layout of ONNX Runtime's `MatMulNBits`, whose zero point is 8
if none is given. The rows are whole numbers, so that the sum of a group is one, too, and a product
with a kernel adds the groups in order:

    y = (Σ over groups: fma(Σ row · (code − 8), scale, sum so far)) · row scale
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.int8_ops import normed_rows, rotated, row_scales

__all__ = ["GROUP", "HADAMARD_INT4_MATMUL", "INT4_MATMUL", "RMS_NORM_INT4_MATMUL"]

GROUP = 32


def _int4_matmul(f: Body, x: ir.Value, weights: ir.Value, scale: ir.Value) -> Sequence[ir.Value]:
    """x · weights; each row of x is rounded with a scale that maps its largest number to ±127."""
    row_scale = row_scales(f, x)
    return [_scaled(f, f.op.Div(x, row_scale), row_scale, weights, scale)]


def _rms_norm_int4_matmul(
    f: Body, x: ir.Value, norm: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm, rounded with one scale, `step`, for all rows."""
    step = f.number("step")
    return [_scaled(f, f.op.Div(normed_rows(f, x, norm), step), step, weights, scale)]


def _hadamard_int4_matmul(
    f: Body, x: ir.Value, hadamard: ir.Value, weights: ir.Value, scale: ir.Value
) -> Sequence[ir.Value]:
    """`_int4_matmul` of rotated rows."""
    return _int4_matmul(f, rotated(f, x, hadamard), weights, scale)


def _scaled(
    f: Body, rows: ir.Value, row_scale: ir.Value, weights: ir.Value, scale: ir.Value
) -> ir.Value:
    """The product of rows that are not rounded yet, in steps of `row_scale`."""
    lowest, highest = f.constant(-128, np.float32), f.constant(127, np.float32)
    (product,) = f.contrib(
        "MatMulNBits",
        [
            f.op.Clip(f.op.Round(rows), lowest, highest),
            weights,
            f.op.Reshape(f.op.Cast(scale, to=ir.DataType.FLOAT), f.ints(-1)),
        ],
        outputs=1,
        K=f.given("k", at="K"),
        N=f.given("n", at="N"),
        bits=4,
        block_size=GROUP,
    )
    return f.op.Mul(product, row_scale)


INT4_MATMUL = Function("Int4MatMul", _int4_matmul)
RMS_NORM_INT4_MATMUL = Function("RMSNormInt4MatMul", _rms_norm_int4_matmul)
HADAMARD_INT4_MATMUL = Function("HadamardInt4MatMul", _hadamard_int4_matmul)
