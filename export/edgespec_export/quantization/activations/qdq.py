"""Products as NPUs take quantized ones: between QuantizeLinear and DequantizeLinear.

    x ── Q ── DQ ── Gemm ── Q ── DQ ── y
    W (int8 or int4) ── DQ ──┘

What is between products stays in float, and an NPU computes it in 16 bits. A weight's scale belongs
to its output channel. Scales of activations are constants, from the ranges that texts showed.
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
ACTIVATIONS: dict[int, type[np.unsignedinteger]] = {16: np.uint16, 8: np.uint8}


class Range(NamedTuple):
    """The least and the largest number of an activation."""

    low: float
    high: float


class Qdq(MatrixByMatrix):
    """Weights of 8 or 4 bits, one scale for each output channel; tables are float16.

    Args:
        weight_bits, activation_bits: 8 or 4, 16 or 8.
        range_of: the ranges of what a product reads and of its result, by its matrix's name.
    """

    def __init__(
        self, weight_bits: int, activation_bits: int, range_of: Callable[[str], tuple[Range, Range]]
    ) -> None:
        self._weight_bits = weight_bits
        self._activation = ACTIVATIONS[activation_bits]
        self._range_of = range_of

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        narrow = g.stored(
            f"{name}.float16", lambda: g.weights.checkpoint_tensor(name).astype(np.float16)
        )
        return g.op.Cast(g.op.Gather(narrow, tokens, axis=0), to=ir.DataType.FLOAT)

    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        read, made = self._range_of(weight)
        rounded = cache(
            lambda: _per_channel(g.weights.checkpoint_tensor(weight), self._weight_bits)
        )
        kind = f"{weight}.symmetric{self._weight_bits}"
        codes = g.stored(kind, lambda: rounded()[0])
        scale = g.stored(f"{kind}.scale", lambda: rounded()[1])
        # ONNX Runtime's processor wants the zeros, which the operator could do without.
        zeros = g.stored(f"{kind}.zero", lambda: np.zeros_like(rounded()[0][:, 0]))
        matrix = g.op.DequantizeLinear(codes, scale, zeros, axis=0)
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


def _per_channel(matrix: Float, bits: int) -> tuple[npt.NDArray[np.generic], Float]:
    """A matrix [out, in] as whole numbers, and the scale of each row."""
    largest = np.float32(LARGEST[bits])
    scale = np.maximum(np.abs(matrix).max(axis=1) / largest, np.float32(1e-30))
    codes = np.rint(matrix / scale[:, None]).clip(-largest, largest)
    return codes.astype(np.int8 if bits == 8 else ml_dtypes.int4), scale
