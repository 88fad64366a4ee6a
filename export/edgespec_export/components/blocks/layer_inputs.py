"""What each layer reads of the tokens besides the residual stream: per-layer embeddings (Gemma 4).

    inputs = (norm(x · projection / √width) + √size · embedding of the token for the layer) / √2

x is the token's first value of the residual stream. The table of embeddings is larger than all
other weights. A graph gathers rows of it and computes with nothing else of it, so a runtime that
maps the file of weights reads those rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["LayerInputGate", "LayerInputs", "RowsByLayer"]


@dataclass(frozen=True)
class LayerInputs:
    """The inputs of all layers.

    Attributes:
        table: name of the embeddings, [tokens · layers, size] (`RowsByLayer`).
        projection: of the residual stream, [layers · size, width].
        norm: of what it makes for each layer.
        size: numbers of an input.
    """

    table: str
    projection: Linear
    norm: RmsNorm
    layers: int
    size: int
    width: int

    def emit(
        self, g: Graph, tokens: ir.Value, x: ir.Value, number_format: NumberFormat
    ) -> Sequence[ir.Value]:
        """[m, size] for each layer."""
        by_layer = g.ints(-1, self.size)
        (projected,) = number_format.linear(g, x, self.projection)
        projected = g.op.Mul(projected, g.constant(self.width**-0.5, np.float32))
        projected = self.norm.emit(g, g.op.Reshape(projected, by_layer))
        rows = number_format.table(g, self._rows_of(g, tokens), self.table)
        rows = g.op.Mul(rows, g.constant(self.size**0.5, np.float32))
        both = g.op.Mul(g.op.Add(projected, rows), g.constant(2**-0.5, np.float32))
        together = g.op.Reshape(both, g.ints(-1, self.layers * self.size))
        return g.split(together, [self.size] * self.layers)

    def _rows_of(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """The rows of the table that belong to tokens [m]: those of all layers, [m · layers]."""
        first = g.op.Mul(tokens, g.constant(self.layers, np.int64))
        layers = g.constant(np.arange(self.layers), np.int64)
        return g.op.Reshape(g.op.Add(g.op.Unsqueeze(first, g.ints(1)), layers), g.ints(-1))


@dataclass(frozen=True)
class LayerInputGate:
    """activation(x) · the layer's input: the activation of the block that reads it."""

    layer: int
    activation: str

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        (x,) = inputs
        return Gate(self.activation).emit(g, [x, context.layer_inputs[self.layer]], context)


class RowsByLayer:
    """A checkpoint's `Weights` in which a table [tokens, layers · size] has a row for each token
    and layer, [tokens · layers, size]: formats round each row with a scale of its own."""

    def __init__(self, weights: Weights, table: str, layers: int) -> None:
        self._weights = weights
        self._table = table
        self._layers = layers
        self.names = weights.names

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self._weights.shape(name)
        if name != self._table or len(shape) != 2 or shape[1] % self._layers:
            return shape
        return (shape[0] * self._layers, shape[1] // self._layers)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(name)
        return tensor if name != self._table else tensor.reshape(self.shape(name))

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if name != self._table:
            return read_rows(self._weights, name, start, stop)
        first, last = start // self._layers, -(-stop // self._layers)
        rows = read_rows(self._weights, name, first, last)
        by_layer = rows.reshape(-1, self.shape(name)[1])
        skipped = first * self._layers
        return by_layer[start - skipped : stop - skipped]
