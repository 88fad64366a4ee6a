"""Products as NPUs take quantized ones: between QuantizeLinear and DequantizeLinear.

    x ── Q ── DQ ── Gemm ── Q ── DQ ── y
    W (int8 or int4) ── DQ ──┘

What is between products stays in float, and an NPU computes it in 16 bits. A weight's scale belongs
to its output channel; of 4 bits, where activations have 16, to 32 weights of it. Qualcomm's NPU
takes such blocks beside no other activations. Scales of activations are constants, from the ranges
that texts showed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.components.number_format import MatrixByMatrix
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["QDQ_FORMATS", "Qdq", "Range"]

# Bits of weights and of activations.
QDQ_FORMATS = {"w8a16": (8, 16), "w8a8": (8, 8), "w4a16": (4, 16), "w4a8": (4, 8)}

Float = npt.NDArray[np.float32]
LARGEST = {8: 127, 4: 7}  # of a weight's whole numbers, which are symmetric
BLOCK = 32  # weights of an output channel that share a scale
BLOCKED = 4, 16  # the bits of weights and activations of such formats
ACTIVATIONS: dict[int, type[np.unsignedinteger]] = {16: np.uint16, 8: np.uint8}


class Range(NamedTuple):
    """The least and the largest number of an activation."""

    low: float
    high: float


class Qdq(MatrixByMatrix):
    """Weights of 8 or 4 bits, a scale for each output channel or block; tables are float16.

    Args:
        weight_bits, activation_bits: 8 or 4, 16 or 8.
        range_of: the ranges of what a product reads and of its result, by its matrix's name.
    """

    def __init__(
        self, weight_bits: int, activation_bits: int, range_of: Callable[[str], tuple[Range, Range]]
    ) -> None:
        self._weight_bits = weight_bits
        self._has_blocks = (weight_bits, activation_bits) == BLOCKED
        self._activation = ACTIVATIONS[activation_bits]
        self._range_of = range_of

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        narrow = g.stored(
            f"{name}.float16", lambda: g.weights.checkpoint_tensor(name).astype(np.float16)
        )
        return g.op.Cast(g.op.Gather(narrow, tokens, axis=0), to=ir.DataType.FLOAT)

    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        read, made = self._range_of(weight)
        columns = g.weights.shape(weight)[1]
        block = BLOCK if self._has_blocks and columns % BLOCK == 0 else columns
        rounded = cache(
            lambda: _in_blocks(g.weights.checkpoint_tensor(weight), self._weight_bits, block)
        )
        kind = f"{weight}.symmetric{self._weight_bits}"
        codes = g.stored(kind, lambda: rounded()[0])
        scale = g.stored(f"{kind}.scale", lambda: rounded()[1])
        # ONNX Runtime's processor wants the zeros, which the operator could do without.
        zeros = g.stored(f"{kind}.zero", lambda: np.zeros(rounded()[1].shape, rounded()[0].dtype))
        where = {"axis": 1, "block_size": block} if block < columns else {"axis": 0}
        matrix = g.op.DequantizeLinear(codes, scale, zeros, **where)
        inputs = [self._rounded(g, x, read), matrix] + ([g.weight(bias)] if bias else [])
        return self._rounded(g, g.op.Gemm(*inputs, transB=1), made)

    def _rounded(self, g: Graph, x: ir.Value, within: Range) -> ir.Value:
        """x as one of the numbers that its bits tell apart in a range."""
        most = int(np.iinfo(self._activation).max)
        low, high = min(within.low, 0.0), max(within.high, 0.0)  # 0 is exact
        scale = max((high - low) / most, 1e-12)
        zero = g.constant(round(-low / scale), self._activation)
        step = g.constant(scale, np.float32)
        return g.op.DequantizeLinear(g.op.QuantizeLinear(x, step, zero), step, zero)


def _in_blocks(matrix: Float, bits: int, block: int) -> tuple[npt.NDArray[np.generic], Float]:
    """A matrix [out, in] as whole numbers, and the scales of its blocks, [out, in / block]; [out]
    where a block is a row."""
    largest = np.float32(LARGEST[bits])
    rows, columns = matrix.shape
    blocks = matrix.reshape(rows, columns // block, block)
    scale = np.maximum(np.abs(blocks).max(axis=2) / largest, np.float32(1e-30))
    codes = np.rint(blocks / scale[:, :, None]).clip(-largest, largest).reshape(rows, columns)
    narrow = codes.astype(np.int8 if bits == 8 else ml_dtypes.int4)
    return narrow, scale if block < columns else scale[:, 0]
