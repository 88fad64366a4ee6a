"""Weights in blocks of 32 with a scale and a zero point each, activations in float32."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx_ir as ir

from edgespec_export.components.number_format import MatrixByMatrix
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.half_ops import FLOAT16_MATMUL
from edgespec_export.quantization.half import Half
from edgespec_export.quantization.rounding import per_block

__all__ = ["WeightOnly"]


class WeightOnly(MatrixByMatrix):
    """4 or 8 bits; tables are float16.

    The fastest plain decoder on a CPU and a poor verifier, because every position of a call costs
    time (docs/speed.md).
    """

    BLOCK = 32

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._half = Half(np.float16, FLOAT16_MATMUL)

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        return self._half.table(g, tokens, name)

    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        out, width = g.weights.shape(weight)
        quantized = cache(
            lambda: per_block(g.weights.checkpoint_tensor(weight), self._bits, self.BLOCK)
        )
        kind = f"{weight}.int{self._bits}"
        matrix = g.stored(f"{kind}.blocks", lambda: quantized()[0])
        scale = g.stored(f"{kind}.scale", lambda: quantized()[1])
        zero = g.stored(f"{kind}.zero", lambda: quantized()[2])
        (y,) = g.contrib(
            "MatMulNBits",
            [x, matrix, scale, zero],
            outputs=1,
            K=width,
            N=out,
            bits=self._bits,
            block_size=self.BLOCK,
            accuracy_level=4,  # activations in 8 bits, per row and block
        )
        return g.op.Add(y, g.weight(bias)) if bias else y
