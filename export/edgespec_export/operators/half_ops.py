"""Products of float32 rows with weights of 16 bits, as ONNX functions.

A runtime converts the weights to float32 when it loads a graph; a kernel leaves them in 16 bits, so
that decoding reads half the bytes. Weights are [out, in], rows float32 [m, in].
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = ["BFLOAT16_MATMUL", "FLOAT16_MATMUL"]


def _float_matmul(f: Body, x: ir.Value, weights: ir.Value) -> Sequence[ir.Value]:
    return [f.op.Gemm(x, f.op.Cast(weights, to=ir.DataType.FLOAT), transB=1)]


FLOAT16_MATMUL = Function("Float16MatMul", _float_matmul)
BFLOAT16_MATMUL = Function("BFloat16MatMul", _float_matmul)
