"""Products of rows in 8 bits with weights in few bits: what int8 and int4 have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.linear import Linear
from edgespec_export.components.norm import Norm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    HADAMARD_ROTATION,
    INT8_EMBEDDING,
    INT8_HEAD,
    INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.quantization.hadamard import (
    INNER_BLOCK,
    STREAM_BLOCK,
    RotatedWeights,
    block_size,
    hadamard,
)
from edgespec_export.quantization.rounding import per_row, side_by_side
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["Int8Rows", "Matrix", "Products", "int8_matrix", "rotated_rows"]


@dataclass(frozen=True)
class Products:
    """The functions that multiply rows with weights of one kind.

    Attributes:
        plain: of the rows as they are.
        normed: of their RMS norm.
        rotated: of the rows times a Hadamard matrix.
    """

    plain: Function
    normed: Function
    rotated: Function


@dataclass(frozen=True)
class Matrix:
    """Matrices side by side as a product reads them.

    Attributes:
        products: the functions that multiply with them.
        tensors: the weights and their scales.
        attributes: of the products' calls.
    """

    products: Products
    tensors: tuple[ir.Value, ir.Value]
    attributes: Mapping[str, int]


INT8_PRODUCTS = Products(INT8_MATMUL, RMS_NORM_INT8_MATMUL, HADAMARD_INT8_MATMUL)


class Int8Rows(NumberFormat):
    """Activations in 8 bits per row, Hadamard-rotated, and so are the weights; tables in int8.

    Each row has its own scale; the rows of an RMS norm have one scale for all, which is known at
    export. Matrices with the same input are one product (operators/int8_ops.py, int4_ops.py).
    hadamard.py says what is rotated and why; the graph rotates where the weights cannot.
    """

    has_block_operators = True

    # The rows of an RMS norm have root mean square 1, and rotated ones are nearly normally
    # distributed: one number in 16 000 is beyond 4. Where an outlier was the whole row, it is
    # √(width / block) after the rotation.
    RANGE = 4

    @abstractmethod
    def matrix(self, g: Graph, names: Sequence[str]) -> Matrix:
        """Matrices of the checkpoint side by side, in this format."""

    def transform_checkpoint(self, weights: Weights, stream: ResidualStream) -> Weights:
        return RotatedWeights(weights, stream)

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        (rows,) = g.call(INT8_EMBEDDING, tokens, *self._table(g, name))
        return rows

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        matrix = self.matrix(g, linear.weights)
        (y,) = g.call(matrix.products.plain, x, *matrix.tensors, **matrix.attributes)
        return split_outputs(g, add_biases(g, y, linear), linear)

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        """The norm is part of each product, unless an outlier of its rows could exceed `RANGE`."""
        (width,) = g.weights.shape(norm.weight)
        if not isinstance(norm, RmsNorm) or width > self.RANGE**2 * block_size(width, STREAM_BLOCK):
            return super().normed_linears(g, x, norm, linears)
        return [self._normed_linear(g, x, norm, linear) for linear in linears]

    def _normed_linear(
        self, g: Graph, x: ir.Value, norm: RmsNorm, linear: Linear
    ) -> Sequence[ir.Value]:
        matrix = self.matrix(g, linear.weights)
        (y,) = g.call(
            matrix.products.normed,
            x,
            g.weight(norm.weight),
            *matrix.tensors,
            epsilon=norm.epsilon,
            step=self.RANGE / 127,
            **matrix.attributes,
        )
        return split_outputs(g, add_biases(g, y, linear), linear)

    def down_proj(self, g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
        """The graph rotates x. An odd width has no Hadamard matrix: x is then not rotated."""
        (name,) = linear.weights
        width = g.weights.shape(name)[1]
        size = block_size(width, INNER_BLOCK)
        if size == 1:
            return super().down_proj(g, x, linear)
        matrix = self.matrix(g, [name])
        (y,) = g.call(
            matrix.products.rotated,
            x,
            g.constant(hadamard(size), np.float32),
            *matrix.tensors,
            blocks=[-1, size],
            rows=[-1, width],
            **matrix.attributes,
        )
        return add_biases(g, y, linear)

    def unrotated(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        return rotated_rows(g, x, width, STREAM_BLOCK)

    def head(self, g: Graph, x: ir.Value, name: str, norm: Norm, factor: float = 1.0) -> ir.Value:
        """The graph also outputs the top tokens, so that greedy calls need no logits."""
        if not isinstance(norm, RmsNorm):
            return self._head_without_norm(g, norm.emit(g, x), name, factor)
        (width,) = g.weights.shape(norm.weight)
        size = block_size(width, STREAM_BLOCK)
        logits, tokens, highest, probabilities = g.call(
            INT8_HEAD,
            x,
            _scaled_norm(g, norm.weight, factor),
            g.constant(hadamard(size), np.float32),
            *self._table(g, name),
            g.default_input(graph_io.OUTPUT_MODE, [0], np.int64, [1]),
            epsilon=norm.epsilon,
            blocks=[-1, size],
            rows=[-1, width],
        )
        g.output(graph_io.TOP_TOKENS, tokens, np.int64, ["top", "best"])
        g.output(graph_io.TOP_LOGITS, highest, np.float32, ["top", "best"])
        g.output(graph_io.TOP_PROBABILITIES, probabilities, np.float32, ["probabilities", "best"])
        return logits

    def _head_without_norm(self, g: Graph, x: ir.Value, name: str, factor: float) -> ir.Value:
        """The head after another norm. A tied table is stored twice: as rows and as columns."""
        rows = x if factor == 1 else g.op.Mul(x, g.constant(factor, np.float32))
        (logits,) = g.call(INT8_MATMUL, rows, *int8_matrix(g, [name], f"{name}.head").tensors)
        return logits

    def _table(self, g: Graph, name: str) -> tuple[ir.Value, ir.Value]:
        """The embedding or a head [tokens, width], and the scale of each row."""
        quantized = cache(lambda: per_row(g.weights.checkpoint_tensor(name)))
        table = g.stored(f"{name}.int8", lambda: quantized()[0])
        return table, g.stored(f"{name}.scale", lambda: quantized()[1])


def int8_matrix(g: Graph, names: Sequence[str], stored: str | None = None) -> Matrix:
    """Matrices side by side [in, Σ out] in int8, and the scale of each output.

    Args:
        stored: their name in the weight file, if it is not made of theirs.
    """
    name = stored or "+".join(names)
    quantized = cache(lambda: side_by_side(map(g.weights.checkpoint_tensor, names)))
    weights = g.stored(f"{name}.int8", lambda: quantized()[0])
    return Matrix(INT8_PRODUCTS, (weights, g.stored(f"{name}.scale", lambda: quantized()[1])), {})


def _scaled_norm(g: Graph, name: str, factor: float) -> ir.Value:
    if factor == 1:
        return g.weight(name)
    scale = np.float32(factor)
    return g.stored(f"{name}*{scale}", lambda: g.weights.checkpoint_tensor(name) * scale)


def rotated_rows(g: Graph, x: ir.Value, width: int, max_block: int) -> ir.Value:
    """`hadamard.rotated` in a graph: [m, width], block by block."""
    size = block_size(width, max_block)
    if size == 1:
        return x
    matrix = g.constant(hadamard(size), np.float32)
    (y,) = g.call(HADAMARD_ROTATION, x, matrix, blocks=[-1, size], rows=[-1, width])
    return y
