"""Weights and products in float16, for devices that multiply in 16 bits; the rest in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.components.linear import Linear
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.half_ops import FLOAT16_MATMUL
from edgespec_export.quantization.half import Half
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["HalfProducts"]


class HalfProducts(Half):
    """float16. Rows are rounded before each product and its result comes in float16; the residual
    stream, norms, attention and logits are float32. A number beyond 65 504 becomes infinite."""

    def __init__(self) -> None:
        super().__init__(np.float16, FLOAT16_MATMUL)

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        rows = g.op.Cast(x, to=ir.DataType.FLOAT16)
        y = g.op.Gemm(rows, self._stored(g, linear.weights), transB=1)
        wide = g.op.Cast(y, to=ir.DataType.FLOAT)
        return split_outputs(g, add_biases(g, wide, linear), linear)
