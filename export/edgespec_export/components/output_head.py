"""The head of a model: what makes logits of the residual stream after the last layer."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.norms.norm import Norm
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import capped

__all__ = ["OutputHead"]


@dataclass(frozen=True)
class OutputHead:
    """cap(factor · norm(x) · Wᵀ).

    Attributes:
        table: name of W [vocab_size, width], which may be the embedding.
        cap: logits are cap · tanh(logit / cap); None if they have no cap.
    """

    table: str
    norm: Norm
    factor: float = 1.0
    cap: float | None = None

    def capped(self, g: Graph, logits: ir.Value) -> ir.Value:
        """Logits [m, vocab_size] within the cap."""
        return logits if self.cap is None else capped(g, logits, self.cap)
