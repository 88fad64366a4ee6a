"""Activations of a feed-forward block, gated or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import GATES, RELU, activation

__all__ = ["ClampedGate", "Gate", "Ungated", "XIelu"]


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
class ClampedGate:
    """gate · σ(slope · gate) · (up + 1), with bounds on both inputs (gpt-oss).

    Attributes:
        limit: the largest gate, and the largest |up|.
    """

    slope: float
    limit: float

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        slope, limit, lowest, one = (
            g.constant(value, np.float32) for value in (self.slope, self.limit, -self.limit, 1)
        )
        gate, up = inputs
        gate = g.op.Min(gate, limit)
        up = g.op.Min(g.op.Max(up, lowest), limit)
        opened = g.op.Mul(gate, g.op.Sigmoid(g.op.Mul(gate, slope)))
        return g.op.Mul(g.op.Add(up, one), opened)


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


@dataclass(frozen=True)
class XIelu:
    """α⁺x² + βx of a positive x, α⁻(eˣ - 1 - x) + βx of any other (Huang and Schlag 2024, arXiv
    2411.13010).

    Attributes:
        positive, negative, linear: names of α⁺, α⁻ and β, [1] each.
    """

    positive: str
    negative: str
    linear: str

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        (x,) = inputs
        zero, one = (g.constant(value, np.float32) for value in (0, 1))
        above, below = g.op.Relu(x), g.op.Min(x, zero)
        squares = g.op.Mul(g.weight(self.positive), g.op.Mul(above, above))
        curve = g.op.Sub(g.op.Sub(g.op.Exp(below), one), below)
        curve = g.op.Mul(g.weight(self.negative), curve)
        return g.op.Add(g.op.Add(squares, curve), g.op.Mul(g.weight(self.linear), x))
