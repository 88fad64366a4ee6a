"""Weights and activations in 8 bits."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.int8_rows import Int8Rows, Matrix, int8_matrix

__all__ = ["Int8"]


class Int8(Int8Rows):
    """Weights in 8 bits per output channel, activations in 8 bits per row."""

    def matrix(self, g: Graph, names: Sequence[str]) -> Matrix:
        return int8_matrix(g, names)
