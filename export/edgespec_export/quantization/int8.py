"""Weights and activations in 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    INT8_EMBEDDING,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.quantization.hadamard import (
    INNER_BLOCK,
    STREAM_BLOCK,
    RotatedWeights,
    block_size,
    hadamard,
)
from edgespec_export.quantization.int8_tables import (
    embedding_of_unrotated,
    head_of_unrotated,
    int8_head,
    int8_matrix,
    int8_table,
    rotated_rows,
)
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["Int8", "Products"]


class Products(NamedTuple):
    """The operators that multiply with one format of weights: rows as they are, after an RMS norm,
    rotated, and rotated after a norm."""

    plain: Function
    normed: Function
    rotated: Function
    normed_rotated: Function


INT8_PRODUCTS = Products(
    INT8_MATMUL, RMS_NORM_INT8_MATMUL, HADAMARD_INT8_MATMUL, RMS_NORM_HADAMARD_INT8_MATMUL
)


class Int8(NumberFormat):
    """Weights in 8 bits per output channel, activations in 8 bits per row, both Hadamard-rotated.

    Each row has its own scale; the rows of an RMS norm have one scale for all, which is known at
    export. Matrices with the same input are one product (operators/int8_ops.py). hadamard.py says
    what is rotated and why; the graph rotates where the weights cannot. Where the residual stream
    may not be rotated, it rotates what blocks read, and tables are rotated alone.

    Attributes:
        stream: the tensors around the residual stream, of the checkpoint that is written.
    """

    has_block_operators = True

    # The rows of an RMS norm have root mean square 1, and rotated ones are nearly normally
    # distributed: one number in 16 000 is beyond 4. Where an outlier was the whole row, it is
    # √(width / block) after the rotation.
    RANGE = 4

    stream: ResidualStream

    def transform_checkpoint(self, weights: Weights, stream: ResidualStream) -> Weights:
        self.stream = stream
        return RotatedWeights(weights, stream)

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        if not self.stream.is_rotated:
            return embedding_of_unrotated(g, tokens, name)
        (rows,) = g.call(INT8_EMBEDDING, tokens, *int8_table(g, name))
        return rows

    def products(self, g: Graph, names: Sequence[str]) -> Products:
        """The operators for matrices with the same input."""
        return INT8_PRODUCTS

    def matrix(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ...]:
        """These matrices, side by side, as the operators take them."""
        return int8_matrix(g, names)

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        (y,) = g.call(self.products(g, linear.weights).plain, x, *self.matrix(g, linear.weights))
        return split_outputs(g, add_biases(g, y, linear), linear)

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        """The norm is part of each product, unless an outlier of its rows could exceed `RANGE`."""
        if self.stream.rotated_reads.issuperset(w for linear in linears for w in linear.weights):
            return [self._rotated_normed_linear(g, x, norm, linear) for linear in linears]
        if not isinstance(norm, RmsNorm):
            return super().normed_linears(g, x, norm, linears)
        (width,) = g.weights.shape(norm.weight)
        if width > self.RANGE**2 * block_size(width, STREAM_BLOCK):
            return super().normed_linears(g, x, norm, linears)
        return [self._normed_linear(g, x, norm, linear) for linear in linears]

    def _normed_linear(
        self, g: Graph, x: ir.Value, norm: RmsNorm, linear: Linear
    ) -> Sequence[ir.Value]:
        (y,) = g.call(
            self.products(g, linear.weights).normed,
            x,
            g.weight(norm.weight),
            *self.matrix(g, linear.weights),
            epsilon=norm.epsilon,
            step=self.RANGE / 127,
        )
        return split_outputs(g, add_biases(g, y, linear), linear)

    def _rotated_normed_linear(
        self, g: Graph, x: ir.Value, norm: Norm, linear: Linear
    ) -> Sequence[ir.Value]:
        """The norm is part of the product, if it is an RMS norm that can be rotated."""
        rotation = _rotation(g, linear)
        if not isinstance(norm, RmsNorm) or rotation is None:
            y = self._rotated_product(g, norm.emit(g, x), linear)
            return split_outputs(g, y, linear)
        (y,) = g.call(
            self.products(g, linear.weights).normed_rotated,
            x,
            g.weight(norm.weight),
            rotation.matrix,
            *self.matrix(g, linear.weights),
            epsilon=norm.epsilon,
            **rotation.shapes,
        )
        return split_outputs(g, add_biases(g, y, linear), linear)

    def down_proj(self, g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
        return self._rotated_product(g, x, linear)

    def _rotated_product(self, g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
        """The graph rotates x. An odd width has no Hadamard matrix: x is then not rotated."""
        rotation, products = _rotation(g, linear), self.products(g, linear.weights)
        matrix = self.matrix(g, linear.weights)
        if rotation is None:
            (y,) = g.call(products.plain, x, *matrix)
        else:
            (y,) = g.call(products.rotated, x, rotation.matrix, *matrix, **rotation.shapes)
        return add_biases(g, y, linear)

    def unrotated(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        return rotated_rows(g, x, width, STREAM_BLOCK) if self.stream.is_rotated else x

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        if not self.stream.is_rotated:
            return head_of_unrotated(g, x, head)
        return int8_head(g, x, int8_table(g, head.table), head)


@dataclass(frozen=True)
class _Rotation:
    """The rotation of a product's rows in the graph.

    Attributes:
        matrix: Hadamard's, [block, block].
        shapes: attributes of the operators that rotate.
    """

    matrix: ir.Value
    shapes: Mapping[str, list[int]]


def _rotation(g: Graph, linear: Linear) -> _Rotation | None:
    """Of what these matrices read; None for an odd width, which has no Hadamard matrix."""
    width = g.weights.shape(linear.weights[0])[1]
    size = block_size(width, INNER_BLOCK)
    if size == 1:
        return None
    matrix = g.constant(hadamard(size), np.float32)
    return _Rotation(matrix, {"blocks": [-1, size], "rows": [-1, width]})
