"""The outputs of several matrices that one product computes side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.components.linear import Linear
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["add_biases", "split_outputs"]


def add_biases(g: Graph, y: ir.Value, linear: Linear) -> ir.Value:
    """y [m, Σ out] plus the biases, if there are any."""
    biases = linear.biases
    if not biases:
        return y
    added = g.stored(
        "+".join(biases), lambda: np.concatenate([g.weights.checkpoint_tensor(b) for b in biases])
    )
    # Not `Add`: ONNX Runtime 1.31 moves one into its fused product, which then forgets it.
    return g.op.Sum(y, added)


def split_outputs(g: Graph, y: ir.Value, linear: Linear) -> Sequence[ir.Value]:
    """y [m, Σ out] as one [m, out] for each output of `linear`."""
    widths = linear.widths or [g.weights.shape(name)[0] for name in linear.weights]
    return g.split(y, widths) if len(widths) > 1 else [y]
