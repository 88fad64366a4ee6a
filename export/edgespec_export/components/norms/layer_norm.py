"""The norm of models before RMS norms: rows are centred, scaled and shifted."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph

__all__ = ["LayerNorm"]


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
