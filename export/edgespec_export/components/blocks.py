"""The parts that every family is made of. Positions are rows: x is [m, width] throughout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import GATES, RELU, activation
from edgespec_export.quantization.hadamard import Residual

__all__ = [
    "FullPrecision",
    "NumberFormat",
    "Positions",
    "activated",
    "asked_positions",
    "decoder_positions",
    "gated",
    "rms_norm",
]


class NumberFormat(Protocol):
    """A number format: how matrices are stored and multiplied. Models never ask which it is.

    Models say what a matrix is for; formats to which that makes a difference override it.
    """

    def prepared(self, weights: Weights, residual: Residual) -> Weights:
        """The checkpoint's tensors as this format wants them."""
        return weights

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        """Rows of the checkpoint's table `name`: tokens [m] to [m, width]."""
        ...

    def linear(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        """x · Wᵀ (+ b) for the checkpoint's matrix `name` ([out, in]): [m, out]."""
        ...

    def linears(
        self, g: Graph, x: ir.Value, names: Sequence[str], biases: Sequence[str] = ()
    ) -> Sequence[ir.Value]:
        """`linear` for several matrices with the same input; all of them have a bias, or none."""
        if not biases:
            return [self.linear(g, x, name) for name in names]
        return [self.linear(g, x, *pair) for pair in zip(names, biases, strict=True)]

    def inner(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        """`linear` for the matrix behind the feed-forward's activation."""
        return self.linear(g, x, name, bias)

    def norm(self, g: Graph, x: ir.Value, name: str, epsilon: float) -> ir.Value:
        """`rms_norm` of the residual stream, in front of its readers."""
        return rms_norm(g, x, name, epsilon)

    def unturned(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        """The residual stream [m, width] as the checkpoint's own model would have it."""
        return x

    def head(
        self, g: Graph, x: ir.Value, name: str, norm: str, epsilon: float, factor: float = 1.0
    ) -> ir.Value:
        """factor · `rms_norm`, and `linear` for the head, which may be the embedding's `table`."""
        normed = rms_norm(g, x, norm, epsilon)
        if factor != 1:
            normed = g.op.Mul(normed, g.constant(factor, np.float32))
        return self.linear(g, normed, name)


class FullPrecision(NumberFormat):
    """float32. `Gemm` takes the matrix as checkpoints store it, so nothing is transposed."""

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        return g.op.Gather(g.weight(name), tokens, axis=0)

    def linear(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        inputs = [x, g.weight(name)] + ([g.weight(bias)] if bias else [])
        return g.op.Gemm(*inputs, transB=1)


def rms_norm(g: Graph, x: ir.Value, name: str, epsilon: float) -> ir.Value:
    """x / √(mean(x²) + ε) · weight, over the last axis."""
    return g.op.RMSNormalization(x, g.weight(name), axis=-1, epsilon=epsilon)


def activated(g: Graph, x: ir.Value, name: str) -> ir.Value:
    """activation(x)."""
    if name == "relu":
        (y,) = g.call(RELU, x)
        return y
    return activation(g, x, name)


def gated(g: Graph, gate: ir.Value, up: ir.Value, name: str) -> ir.Value:
    """activation(gate) · up, [m, width]."""
    if name in GATES:
        (y,) = g.call(GATES[name], gate, up)
        return y
    return g.op.Mul(activation(g, gate, name), up)


class Positions:
    """Where the positions of a decoder call stand in the text.

    Attributes:
        past: int64 [1], valid positions in the cache.
        total: int64 [1], the same after this call.
        count: int64 [1], positions in this call (m).
        parents: int64 [candidates]; the last positions of the call are candidates, each stands behind
            an earlier one in place of the next.
        queries: int64 [m], their places: past, past + 1 … and those of candidates.
    """

    def __init__(self, g: Graph, tokens: ir.Value, past: ir.Value, parents: ir.Value) -> None:
        self.past = past
        self.parents = parents
        self.count = g.op.Shape(tokens)
        self.total = g.op.Add(past, self.count)
        line = g.op.Sub(self.total, g.op.Shape(parents))
        scalar = g.constant([], np.int64)
        start, line_end, self.end = (
            g.op.Reshape(value, scalar) for value in (past, line, self.total)
        )
        in_line = g.op.Range(start, line_end, g.constant(1, np.int64))
        worth_candidate = g.op.Add(parents, g.op.Add(past, g.ints(1)))
        self.queries = g.op.Concat(in_line, worth_candidate, axis=0)


def decoder_positions(g: Graph, *, trees: bool) -> tuple[ir.Value, Positions]:
    """The inputs every decoder graph has: the tokens of a call and where they stand.

    Args:
        trees: the graph's attention knows candidates.
    """
    tokens = g.input(graph_io.TOKENS, np.int64, ["m"])
    past = g.input(graph_io.PAST_LENGTH, np.int64, [1])
    if trees:
        parents = g.default_input(graph_io.PARENTS, [], np.int64, ["candidates"])
    else:
        parents = g.constant([], np.int64)
    return tokens, Positions(g, tokens, past, parents)


def asked_positions(g: Graph, x: ir.Value) -> ir.Value:
    """The positions whose logits are asked for: [m, width] to [rows, width].

    A prefill asks for one only: the widest product of the model is not made for the others.
    """
    skip = g.input(graph_io.SKIP, np.int64, [1])
    return g.op.Slice(x, skip, g.ints(np.iinfo(np.int64).max), g.ints(0))
