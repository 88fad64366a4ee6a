"""The blocks of a layer: what attention and the feed-forward add to the residual stream.

    x ──┬── norm ── reads ── middle ── writes ── post_norm ── + ── sum_norm ── x'
        └─────────────────────────────────────────────────────┘

Most models have only the first of the three norms ("pre-norm"; Xiong et al. 2020, arXiv
2002.04745), Gemma 3 has the second as well. Older ones have only the third ("post-norm"): a block
reads the norm of the sum before it. A block is data: a family names its tensors, and graphs, checks
and formats read them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import onnx_ir as ir

from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = [
    "AttentionBlock",
    "AttentionMiddle",
    "Block",
    "EmitContext",
    "FeedForwardBlock",
    "Middle",
]


@dataclass(frozen=True)
class EmitContext:
    """The values and choices that all blocks of a graph share.

    Attributes:
        positions: of the rows of this call; None in an encoder, which has no cache.
        encoding: what tells attention the positions: rotary angles, a bias, or distances of which
            each layer makes a bias of its own; None where the residual stream tells them.
    """

    number_format: NumberFormat
    attention: Attention
    positions: Positions | None
    encoding: PositionEncoding | None


class Middle(Protocol):
    """The part of a block between its two products."""

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        """[m, …] from the outputs of the block's first product."""
        ...


class AttentionMiddle(Middle, Protocol):
    """Attributes of attention that determine the shapes of its block's matrices.

    Attributes:
        widths: of its inputs; the first is also the width of its result.
    """

    @property
    def widths(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Block(ABC):
    """sum_norm(x + post_norm(writes(middle(reads(norm(x)))))).

    Attributes:
        name: of the block in the checkpoint, for messages: "model.layers.3.mlp".
        norm: of the residual stream.
        reads: the matrices that read the norm.
        writes: the matrix whose output is added to the residual stream.
        post_norm: of what is added.
        sum_norm: of the sum.
    """

    name: str
    norm: Norm
    reads: Linear
    writes: Linear
    post_norm: Norm = field(default=NoNorm(), kw_only=True)
    sum_norm: Norm = field(default=NoNorm(), kw_only=True)

    @property
    def norms(self) -> tuple[Norm, Norm, Norm]:
        """Before the block, of what it adds, and of the sum."""
        return self.norm, self.post_norm, self.sum_norm

    def emit(self, g: Graph, x: ir.Value, context: EmitContext) -> ir.Value:
        """The residual stream [m, width] after this block."""
        with g.block(self.name):
            (inputs,) = context.number_format.normed_linears(g, x, self.norm, [self.reads])
            added = self.post_norm.emit(g, self._added(g, inputs, context))
            return self.sum_norm.emit(g, g.op.Add(x, added))

    @abstractmethod
    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        """[m, width], from the outputs of `reads`."""

    @abstractmethod
    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the matrices whose shapes follow from a config."""


@dataclass(frozen=True)
class AttentionBlock(Block):
    """A block with attention between its products, or what a model has in its place."""

    middle: AttentionMiddle

    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        y = self.middle.emit(g, inputs, context)
        (y,) = context.number_format.linear(g, y, self.writes)
        return y

    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        heads = self.middle.widths
        outputs = (sum(heads),) if self.reads.widths else heads
        for name, output in zip(self.reads.weights, outputs, strict=True):
            yield name, (output, width)
        yield self.writes.weights[0], (width, heads[0])


@dataclass(frozen=True)
class FeedForwardBlock(Block):
    """A block with an activation between its products."""

    middle: Middle

    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        return context.number_format.down_proj(g, self.middle.emit(g, inputs, context), self.writes)

    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """None: a product whose matrices do not fit each other fails when it is loaded."""
        return iter(())
