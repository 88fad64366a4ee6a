"""Activations by their names in checkpoints, and the ONNX functions made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.onnx_graph.nodes import Nodes

__all__ = ["GATES", "GELU_GATE", "RELU", "SILU_GATE", "activation", "capped"]


def activation(g: Nodes, x: ir.Value, name: str) -> ir.Value:
    """The activation with this name in checkpoints."""
    if name == "relu":
        return g.op.Relu(x)
    if name == "relu2":
        positive = g.op.Relu(x)
        return g.op.Mul(positive, positive)
    if name == "silu":
        return g.op.Mul(x, g.op.Sigmoid(x))
    approximate = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}[name]
    return g.op.Gelu(x, approximate=approximate)


def capped(g: Nodes, x: ir.Value, cap: float) -> ir.Value:
    """cap · tanh(x / cap), which lies between -cap and cap."""
    limit = g.constant(cap, np.float32)
    return g.op.Mul(g.op.Tanh(g.op.Div(x, limit)), limit)


def _gate(kernel: str, name: str) -> Function:
    """activation(gate) · up, [m, width]."""

    def emit(f: Body, gate: ir.Value, up: ir.Value) -> Sequence[ir.Value]:
        return [f.op.Mul(activation(f, gate, name), up)]

    return Function(kernel, emit)


def _relu(f: Body, x: ir.Value) -> Sequence[ir.Value]:
    return [activation(f, x, "relu")]


RELU = Function("Relu", _relu)
SILU_GATE = _gate("SiluGate", "silu")
GELU_GATE = _gate("GeluGate", "gelu_new")
GATES = {"silu": SILU_GATE, "gelu_new": GELU_GATE, "gelu_pytorch_tanh": GELU_GATE}
