"""Keys and values of cross-attention: outputs of an encoder, inputs of a decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.heads import Heads, by_head
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["cross_inputs", "cross_outputs"]


def cross_outputs(g: Graph, heads: Heads, layer: int, parts: Sequence[ir.Value]) -> None:
    """Emits the outputs of an encoder that are a layer's cross-attention keys and values.

    Args:
        parts: the two, [source, kv_count · size].
    """
    for name, rows in zip(graph_io.cross_names(layer), parts, strict=True):
        g.output(name, by_head(g, rows, heads.kv_count, heads), np.float32, _source_shape(heads))


def cross_inputs(g: Graph, heads: Heads, layer: int) -> list[ir.Value]:
    return [g.input(name, np.float32, _source_shape(heads)) for name in graph_io.cross_names(layer)]


def _source_shape(heads: Heads) -> tuple[int | str, ...]:
    """Shape of the keys and values of cross-attention."""
    return (1, heads.kv_count, "source", heads.size)
