"""Products of rows rounded to 8 bits with weights in 4 bits that expand to 8, as ONNX functions.

`GROUP` inputs are a group. A weight is (code · step + offset) · scale, with whole numbers of 8 bits
between the parentheses: steps (uint8) and offsets (int8) are [out, groups], scales float32 [out].
Codes are uint8 [out, groups, GROUP / 2], two in a byte, the first in its low half. What is expanded
is multiplied as int8_ops.py says; ONNX Runtime expands the weights once, when it loads a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators import int8_ops
from edgespec_export.operators.grouped_rows import GROUP

__all__ = [
    "HADAMARD_INT4_INT8_MATMUL",
    "INT4_INT8_MATMUL",
    "RMS_NORM_HADAMARD_INT4_INT8_MATMUL",
    "RMS_NORM_INT4_INT8_MATMUL",
]


def _expanded(f: Body, codes: ir.Value, steps: ir.Value, offsets: ir.Value) -> ir.Value:
    """Weights int8 [in, out]."""
    low = f.op.BitwiseAnd(codes, f.constant(15, np.uint8))
    high = f.op.BitShift(codes, f.constant(4, np.uint8), direction="RIGHT")
    pairs = f.op.Concat(*(f.op.Unsqueeze(x, f.ints(-1)) for x in (low, high)), axis=-1)
    grouped = f.op.Reshape(pairs, f.ints(0, 0, GROUP))
    code, step, offset = (
        f.op.Cast(x, to=ir.DataType.INT32)
        for x in (grouped, *(f.op.Unsqueeze(each, f.ints(-1)) for each in (steps, offsets)))
    )
    whole = f.op.Cast(f.op.Add(f.op.Mul(code, step), offset), to=ir.DataType.INT8)
    return f.op.Transpose(f.op.Reshape(whole, f.ints(0, -1)), perm=[1, 0])


def _of_expanded(product: Callable[..., Sequence[ir.Value]]) -> Callable[..., Sequence[ir.Value]]:
    """A product of `int8_ops` whose weights are expanded before it."""

    def emit(
        f: Body, *, weights: ir.Value, steps: ir.Value, offsets: ir.Value, **given: ir.Value
    ) -> Sequence[ir.Value]:
        return product(f, weights=_expanded(f, weights, steps, offsets), **given)

    return emit


INT4_INT8_MATMUL = Function("Int4Int8MatMul", _of_expanded(int8_ops.int8_matmul))
RMS_NORM_INT4_INT8_MATMUL = Function(
    "RMSNormInt4Int8MatMul", _of_expanded(int8_ops.rms_norm_int8_matmul)
)
HADAMARD_INT4_INT8_MATMUL = Function(
    "HadamardInt4Int8MatMul", _of_expanded(int8_ops.hadamard_int8_matmul)
)
RMS_NORM_HADAMARD_INT4_INT8_MATMUL = Function(
    "RMSNormHadamardInt4Int8MatMul", _of_expanded(int8_ops.rms_norm_hadamard_int8_matmul)
)
