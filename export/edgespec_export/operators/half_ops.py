"""Products with weights of 16 bits, as ONNX functions; rows may be rounded to bfloat16 first.

A runtime converts the weights to float32 when it loads a graph; a kernel leaves them in 16 bits, so
that decoding reads half the bytes. Weights are [out, in], rows float32 [m, in].

A kernel multiplies rounded rows in one order of additions on every processor, that of AMX's
TDPBF16PS. Of each 32 inputs:

    even = fma(x[2i], w[2i], even), odd = fma(x[2i + 1], w[2i + 1], odd)   i = 0 … 15, from 0
    y = y + (even + odd)

It takes numbers of x below 2^-60 and weights below 2^-52 for 0: so no sum is subnormal.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.int8_ops import normed_rows

__all__ = [
    "BFLOAT16_MATMUL",
    "BFLOAT16_ROW_MATMUL",
    "FLOAT16_MATMUL",
    "RMS_NORM_BFLOAT16_ROW_MATMUL",
]


def _float_matmul(f: Body, x: ir.Value, weights: ir.Value) -> Sequence[ir.Value]:
    return [f.op.Gemm(x, f.op.Cast(weights, to=ir.DataType.FLOAT), transB=1)]


def _row_matmul(f: Body, x: ir.Value, weights: ir.Value) -> Sequence[ir.Value]:
    """rounded x · weightsᵀ."""
    rounded = f.op.Cast(x, to=ir.DataType.BFLOAT16)
    return _float_matmul(f, f.op.Cast(rounded, to=ir.DataType.FLOAT), weights)


def _rms_norm_row_matmul(
    f: Body, x: ir.Value, norm: ir.Value, weights: ir.Value
) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm · weightsᵀ."""
    return _row_matmul(f, normed_rows(f, x, norm), weights)


FLOAT16_MATMUL = Function("Float16MatMul", _float_matmul)
BFLOAT16_MATMUL = Function("BFloat16MatMul", _float_matmul)
BFLOAT16_ROW_MATMUL = Function("BFloat16RowMatMul", _row_matmul)
RMS_NORM_BFLOAT16_ROW_MATMUL = Function("RMSNormBFloat16RowMatMul", _rms_norm_row_matmul)
