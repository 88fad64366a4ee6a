"""A number format that records what the products of a model read, before any rounding."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.components.output_head import OutputHead
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Recording", "moments_name"]


class Recording(FullPrecision):
    """float32; graphs output second moments instead of logits.

    The moments of a product are XᵀX of its input X [m, in], summed over the rows of a call.

    Args:
        wanted: the products that are recorded, by the names of their matrices joined by "+".

    Attributes:
        sizes: bytes of the moments of each product, in the order of the graph.
    """

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self._wanted = wanted
        self.sizes: dict[str, int] = {}

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        product = "+".join(linear.weights)
        width = g.weights.shape(linear.weights[0])[1]
        self.sizes[product] = 4 * width * width
        if product in self._wanted:
            moments = g.op.Gemm(x, x, transA=1)
            g.output(moments_name(product), moments, np.float32, [width, width])
        return super().linear(g, x, linear)

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        """Nothing: nobody reads the logits."""
        return x


def moments_name(product: str) -> str:
    """The output with the moments of a product's inputs."""
    return f"moments.{product}"
