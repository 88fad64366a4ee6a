"""A number format that records the ranges of what products read and make, before any rounding."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec_export.components.number_format import FullPrecision
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["RangeRecording", "range_name"]


class RangeRecording(FullPrecision):
    """float32; graphs also output the ranges of each product, [4]: the least and the largest number
    of its input, then of its result.

    Attributes:
        products: names of the matrices, in the order of the graph.
    """

    def __init__(self) -> None:
        self.products: list[str] = []

    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        y = super().product(g, x, weight, bias)
        ends = [
            g.op.Reshape(end(value, keepdims=0), g.ints(1))
            for value in (x, y)
            for end in (g.op.ReduceMin, g.op.ReduceMax)
        ]
        self.products.append(weight)
        g.output(range_name(weight), g.op.Concat(*ends, axis=0), np.float32, [4])
        return y


def range_name(product: str) -> str:
    """The output with the ranges of a product."""
    return f"range.{product}"
