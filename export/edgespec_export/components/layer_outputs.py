"""What a target shows a draft that reads its hidden states: its stream after some layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["emit_layer_outputs"]


def emit_layer_outputs(
    g: Graph,
    after: Sequence[ir.Value],
    layers: Sequence[int],
    width: int,
    number_format: NumberFormat,
) -> None:
    """Emits the graph's output of features, [m, layers · width], in the checkpoint's basis.

    Args:
        after: the residual stream [m, width] after each layer of the decoder.
        layers: those that are shown, counted from 1; none: there is no such output.
    """
    if not layers:
        return
    parts = [number_format.unrotated(g, after[layer - 1], width) for layer in layers]
    features = g.op.Concat(*parts, axis=1)
    g.output(graph_io.FEATURES, features, np.float32, ["m", len(layers) * width])
