"""Activations of a feed-forward block, gated or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import GATES, RELU, activation

__all__ = ["Gate", "Ungated"]


@dataclass(frozen=True)
class Gate:
    """activation(gate) · up, from two inputs [m, width] in this order."""

    activation: str

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        gate, up = inputs
        if self.activation in GATES:
            (y,) = g.call(GATES[self.activation], gate, up)
            return y
        return g.op.Mul(activation(g, gate, self.activation), up)


@dataclass(frozen=True)
class Ungated:
    """activation(x)."""

    activation: str

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        (x,) = inputs
        if self.activation == "relu":
            (y,) = g.call(RELU, x)
            return y
        return activation(g, x, self.activation)
