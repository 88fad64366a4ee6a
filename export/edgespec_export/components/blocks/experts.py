"""A feed-forward of several experts, of which each row has a few (Shazeer et al. 2017, arXiv
1701.06538).

A router gives each row its share of each expert. A call computes the experts that any of its rows
has, for all of its rows, so that no row's numbers depend on the others': one row reads the weights
of its own experts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import onnx_ir as ir

from edgespec_export.components.blocks.block import EmitContext, FeedForwardBlock
from edgespec_export.components.linear import Linear
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Expert", "ExpertsBlock", "Routing", "SigmoidRouting", "SoftmaxRouting"]


class Routing(Protocol):
    """How the router's scores become shares."""

    def shares(self, g: Graph, scores: ir.Value) -> ir.Value:
        """[m, experts], 0 where a row does not have an expert, from scores [m, experts]."""
        ...


@dataclass(frozen=True)
class SoftmaxRouting:
    """The largest probabilities of a softmax over all experts (Qwen3).

    Attributes:
        chosen: experts of a row.
        normalized: its shares sum to 1.
    """

    chosen: int
    normalized: bool

    def shares(self, g: Graph, scores: ir.Value) -> ir.Value:
        largest, experts = g.largest(g.op.Softmax(scores, axis=-1), g.ints(self.chosen))
        if self.normalized:
            largest = g.op.Div(largest, g.op.ReduceSum(largest, g.ints(1)))
        return _scattered(g, scores, experts, largest)


@dataclass(frozen=True)
class SigmoidRouting:
    """Sigmoids of the scores, of which the experts are chosen with a bias for each (LFM2).

    Attributes:
        bias: name of the biases [experts]; None if there are none.
        factor: of all shares.
    """

    chosen: int
    normalized: bool
    bias: str | None
    factor: float

    def shares(self, g: Graph, scores: ir.Value) -> ir.Value:
        each = g.op.Sigmoid(scores)
        biased = each if self.bias is None else g.op.Add(each, g.weight(self.bias))
        _, experts = g.largest(biased, g.ints(self.chosen))
        shares = g.op.GatherElements(each, experts, axis=1)
        if self.normalized:
            total = g.op.ReduceSum(shares, g.ints(1))
            shares = g.op.Div(shares, g.op.Add(total, g.constant(1e-6, np.float32)))
        if self.factor != 1:
            shares = g.op.Mul(shares, g.constant(self.factor, np.float32))
        return _scattered(g, scores, experts, shares)


@dataclass(frozen=True)
class Expert:
    """The matrices before and after an expert's activation."""

    in_proj: Linear
    out_proj: Linear


@dataclass(frozen=True)
class ExpertsBlock(FeedForwardBlock):
    """The sum of the row's experts, each times its share.

    `in_proj` is the router and what all experts read with, `out_proj` what all write with: formats
    treat them as those of other blocks, but the router, which is multiplied in float32.
    """

    router: str
    routing: Routing
    experts: Sequence[Expert]
    router_bias: str | None = None

    @classmethod
    def of(
        cls,
        block: FeedForwardBlock,
        router: str,
        routing: Routing,
        experts: Sequence[Expert],
        router_bias: str | None = None,
    ) -> ExpertsBlock:
        """Experts in the place of a block that has its norm and its activation."""
        reads = [router, *(name for expert in experts for name in expert.in_proj.weights)]
        writes = [name for expert in experts for name in expert.out_proj.weights]
        biases = [name for expert in experts for name in expert.out_proj.biases]
        return cls(
            name=block.name,
            norm=block.norm,
            in_proj=Linear(tuple(reads)),
            out_proj=Linear(tuple(writes), tuple(biases)),
            activation=block.activation,
            router=router,
            routing=routing,
            experts=tuple(experts),
            router_bias=router_bias,
        )

    def added(self, g: Graph, x: ir.Value, context: EmitContext) -> ir.Value:
        normed = self.norm.emit(g, x)
        biases = [] if self.router_bias is None else [g.weight(self.router_bias)]
        scores = g.op.Gemm(normed, g.weight(self.router), *biases, transB=1)
        shares = self.routing.shares(g, scores)
        zero = g.constant(0, np.float32)
        chosen = g.op.Greater(g.op.ReduceMax(shares, g.ints(0), keepdims=0), zero)  # [experts]
        total = g.op.Expand(zero, g.op.Shape(x))
        of_each = g.split(shares, [1] * len(self.experts))
        for number, (expert, share) in enumerate(zip(self.experts, of_each, strict=True)):
            is_chosen = g.op.Gather(chosen, g.constant(number, np.int64))
            whole = _Sum(self, expert, share, total, x, context)
            total = g.when(is_chosen, total, partial(whole.emit, g))
        return self.post_norm.emit(g, total)


@dataclass(frozen=True)
class _Sum:
    """A sum [m, width] plus an expert's part of it, in the rows that have the expert."""

    block: ExpertsBlock
    expert: Expert
    share: ir.Value
    total: ir.Value
    x: ir.Value
    context: EmitContext

    def emit(self, g: Graph) -> ir.Value:
        block, number_format = self.block, self.context.number_format
        linears = [self.expert.in_proj]
        (inputs,) = number_format.normed_linears(g, self.x, block.norm, linears)
        y = block.activation.emit(g, inputs, self.context)
        y = number_format.down_proj(g, y, self.expert.out_proj)
        has_it = g.op.Greater(self.share, g.constant(0, np.float32))
        return g.op.Where(has_it, g.op.Add(self.total, g.op.Mul(y, self.share)), self.total)


def _scattered(g: Graph, scores: ir.Value, experts: ir.Value, shares: ir.Value) -> ir.Value:
    """Shares [m, chosen] of experts [m, chosen], among zeros for all others."""
    zeros = g.op.Expand(g.constant(0, np.float32), g.op.Shape(scores))
    return g.op.ScatterElements(zeros, experts, shares, axis=1)
