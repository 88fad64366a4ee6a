"""The blocks of a layer: what attention and the feed-forward add to the residual stream.

    x ──┬── norm ── in_proj ── mixer ── out_proj ── post_norm ── + ── sum_norm ── x'
        └────────────────────────────────────────────────────────┘

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
    "Activation",
    "AttentionBlock",
    "Block",
    "EmitContext",
    "FeedForwardBlock",
    "Mixer",
    "side_by_side",
]


@dataclass(frozen=True)
class EmitContext:
    """The values and choices that all blocks of a graph share.

    Attributes:
        positions: of the rows of this call; None in an encoder, which has no cache.
        encoding: what tells attention the positions: rotary angles, a bias, or distances of which
            each layer makes a bias of its own; None where the residual stream tells them.
        layer_inputs: [m, size] for each layer, what it reads of the tokens besides the residual
            stream; most models have none.
    """

    number_format: NumberFormat
    attention: Attention
    positions: Positions | None
    encoding: PositionEncoding | None
    layer_inputs: Sequence[ir.Value] = ()


class Activation(Protocol):
    """What a feed-forward block has between its products."""

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        """[m, …] from the outputs of the block's first product."""
        ...


class Mixer(Activation, Protocol):
    """What mixes the rows of an attention block: attention, or a convolution.

    Attributes:
        widths: of its inputs; the first is also the width of its result.
    """

    @property
    def widths(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Block(ABC):
    """sum_norm(x + post_norm(out_proj(mixer(in_proj(norm(x)))))), or an activation for the mixer.

    Attributes:
        name: of the block in the checkpoint, for messages: "model.layers.3.mlp".
        norm: of the residual stream.
        in_proj: the matrices that read the norm.
        out_proj: the matrix whose output is added to the residual stream.
        post_norm: of what is added.
        sum_norm: of the sum.
        has_products: what `out_proj` reads are products of the block's inputs, whose largest
            numbers are far from the others; formats may rotate them (`ResidualStream.down_projs`).
    """

    name: str
    norm: Norm
    in_proj: Linear
    out_proj: Linear
    post_norm: Norm = field(default=NoNorm(), kw_only=True)
    sum_norm: Norm = field(default=NoNorm(), kw_only=True)
    has_products: bool = field(default=False, kw_only=True)

    @property
    def norms(self) -> tuple[Norm, Norm, Norm]:
        """Before the block, of what it adds, and of the sum."""
        return self.norm, self.post_norm, self.sum_norm

    def emit(self, g: Graph, x: ir.Value, context: EmitContext) -> ir.Value:
        """The residual stream [m, width] after this block."""
        with g.block(self.name):
            return self.sum_norm.emit(g, g.op.Add(x, self.added(g, x, context)))

    def added(self, g: Graph, x: ir.Value, context: EmitContext) -> ir.Value:
        """What this block adds to a residual stream, [m, width], from the stream it reads."""
        (inputs,) = context.number_format.normed_linears(g, x, self.norm, [self.in_proj])
        return self.post_norm.emit(g, self._added(g, inputs, context))

    @abstractmethod
    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        """[m, width], from the outputs of `in_proj`."""

    @abstractmethod
    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the matrices whose shapes follow from a config."""


@dataclass(frozen=True)
class AttentionBlock(Block):
    """A block with attention between its products, or what a model has in its place."""

    mixer: Mixer

    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        y = self.mixer.emit(g, inputs, context)
        if self.has_products:
            return context.number_format.down_proj(g, y, self.out_proj)
        (y,) = context.number_format.linear(g, y, self.out_proj)
        return y

    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        heads = self.mixer.widths
        outputs = (sum(heads),) if self.in_proj.widths else heads
        for name, output in zip(self.in_proj.weights, outputs, strict=True):
            yield name, (output, width)
        yield self.out_proj.weights[0], (width, heads[0])


@dataclass(frozen=True)
class FeedForwardBlock(Block):
    """A block with an activation between its products."""

    activation: Activation
    has_products: bool = field(default=True, kw_only=True)

    def _added(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        return context.number_format.down_proj(
            g, self.activation.emit(g, inputs, context), self.out_proj
        )

    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """None: a product whose matrices do not fit each other fails when it is loaded."""
        return iter(())


def side_by_side(g: Graph, x: ir.Value, blocks: Sequence[Block], context: EmitContext) -> ir.Value:
    """x [m, width] plus what each block adds to it, where all read x and none the sum before it.

    Wang and Komatsuzaki (2021), GPT-J.
    """
    total = x
    for block in blocks:
        with g.block(block.name):
            total = g.op.Add(total, block.added(g, x, context))
    return total
