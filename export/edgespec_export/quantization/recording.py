"""A number format that records what the products of a model read, before any rounding."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.hadamard import INNER_BLOCK, STREAM_BLOCK, RotatedWeights
from edgespec_export.quantization.int8_tables import rotated_rows

__all__ = ["Recording", "RotatedRecording", "moments_name"]


class Recording(FullPrecision):
    """float32; graphs output second moments instead of logits.

    The moments of a product are XᵀX of its input X [m, in], summed over the rows of a call.

    Attributes:
        wanted: the products that are recorded, by the names of their matrices joined by "+".
        sizes: bytes of the moments of each product, in the order of the graph.
    """

    def __init__(self) -> None:
        self.wanted: Collection[str] = ()
        self.sizes: dict[str, int] = {}

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        product = "+".join(linear.weights)
        width = g.weights.shape(linear.weights[0])[1]
        self.sizes[product] = 4 * width * width
        if product in self.wanted:
            moments = g.op.Gemm(x, x, transA=1)
            g.output(moments_name(product), moments, np.float32, [width, width])
        return super().linear(g, x, linear)

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        """Nothing: nobody reads the logits."""
        return x


class RotatedRecording(Recording):
    """The same of a model whose rows are rotated where `Int8` rotates them."""

    stream: ResidualStream

    def transform_checkpoint(self, weights: Weights, stream: ResidualStream) -> Weights:
        self.stream = stream
        return RotatedWeights(weights, stream)

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        normed = norm.emit(g, x)
        if self.stream.rotated_reads.issuperset(w for linear in linears for w in linear.weights):
            normed = _rotated_inner(g, normed, linears[0])
        return [self.linear(g, normed, linear) for linear in linears]

    def down_proj(self, g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
        return super().down_proj(g, _rotated_inner(g, x, linear), linear)

    def unrotated(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        return rotated_rows(g, x, width, STREAM_BLOCK) if self.stream.is_rotated else x


def _rotated_inner(g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
    return rotated_rows(g, x, g.weights.shape(linear.weights[0])[1], INNER_BLOCK)


def moments_name(product: str) -> str:
    """The output with the moments of a product's inputs."""
    return f"moments.{product}"
