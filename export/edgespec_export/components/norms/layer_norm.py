"""The norm of models before RMS norms: rows are centred, scaled and shifted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph

__all__ = ["HeadLayerNorms", "LayerNorm"]


@dataclass(frozen=True)
class LayerNorm:
    """(x - mean(x)) / √(var(x) + ε) · weight + bias. Ba et al. (2016, arXiv 1607.06450)."""

    weight: str
    bias: str
    epsilon: float

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        return g.op.LayerNormalization(
            x, g.weight(self.weight), g.weight(self.bias), axis=-1, epsilon=self.epsilon
        )


@dataclass(frozen=True)
class HeadLayerNorms:
    """A layer norm without biases for each head of rows [m, count · size].

    Attributes:
        weight: name of the weights of all heads, [count · size].
    """

    weight: str
    count: int
    size: int
    epsilon: float

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        by_head = g.op.Reshape(x, g.ints(-1, self.count, self.size))
        ones = g.constant(np.ones(self.size), np.float32)
        normed = g.op.LayerNormalization(by_head, ones, axis=-1, epsilon=self.epsilon)
        rows = g.op.Reshape(normed, g.ints(-1, self.count * self.size))
        return g.op.Mul(rows, g.weight(self.weight))
