"""Mixers of an attention block: self-attention, cross-attention, an encoder's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.attention.heads import (
    HeadNorms,
    Heads,
    Projections,
    apply_rotary,
    normed_heads,
)
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.norms.norm import Norm, RmsNorm
from edgespec_export.components.positions import Angles, QueryFactors, RelativeBias, Rotary
from edgespec_export.onnx_graph.graph import Graph

__all__ = [
    "CrossAttention",
    "EncoderAttention",
    "GatedAttention",
    "GatedHeads",
    "NormedAfterRotation",
    "NormedRows",
    "ScaledQueries",
    "SelfAttention",
]


@dataclass(frozen=True)
class SelfAttention:
    """Causal self-attention of a decoder layer, from queries, keys and values.

    Attributes:
        norms: of each head of the queries and of the keys; None if there are none.
        bias: of this layer alone, from the distances that are then the call's encoding; None where
            the encoding itself tells attention the positions.
        sinks: as those of `Projections`.
    """

    layer: int
    heads: Heads
    norms: HeadNorms | None = None
    bias: RelativeBias | None = None
    sinks: str | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        assert context.positions is not None, "an encoder has no cache"
        assert context.encoding is not None, "a cache needs positions"
        rows = Projections(q, k, v, self.heads, self.norms, sinks=self.sinks)
        encoding = context.encoding
        if self.bias is not None:
            assert not isinstance(encoding, Angles), "a bias is one of distances"
            encoding = self.bias.emit(g, encoding)
        return context.attention.cached(g, rows, self.layer, context.positions, encoding)


@dataclass(frozen=True)
class GatedHeads:
    """Causal self-attention whose heads have a gate each, from queries, keys, values and gates.

    The output of a head is multiplied by the sigmoid of its gate, [m, count] (LFM3).
    """

    attention: SelfAttention

    @property
    def widths(self) -> tuple[int, ...]:
        return (*self.attention.widths, self.attention.heads.count)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        *qkv, gates = inputs
        heads = self.attention.heads
        rows = self.attention.emit(g, qkv, context)
        by_head = g.op.Reshape(rows, g.ints(-1, heads.count, heads.size))
        gates = g.op.Unsqueeze(g.op.Sigmoid(gates), g.ints(2))
        return g.op.Reshape(g.op.Mul(by_head, gates), g.ints(-1, heads.count * heads.size))


@dataclass(frozen=True)
class NormedAfterRotation:
    """Causal self-attention whose queries and keys are normalised after their rotation (Hunyuan).

    Attributes:
        q_norm, k_norm: norms of each head of the queries and of the keys, [size].
        identity_rotary: angles of 0 for the operator of attention, which rotates, too.
    """

    layer: int
    heads: Heads
    q_norm: RmsNorm
    k_norm: RmsNorm
    identity_rotary: Rotary

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        heads, angles = self.heads, context.encoding
        assert isinstance(angles, Angles), "a learned bias rotates nothing"
        assert context.positions is not None, "an encoder has no cache"
        q = apply_rotary(g, q, heads.count, angles, heads)
        k = apply_rotary(g, k, heads.kv_count, angles, heads)
        q = normed_heads(g, q, self.q_norm, heads.size)
        k = normed_heads(g, k, self.k_norm, heads.size)
        identity_rotary = self.identity_rotary.emit(g, context.positions)
        rows = Projections(q, k, v, heads)
        return context.attention.cached(g, rows, self.layer, context.positions, identity_rotary)


@dataclass(frozen=True)
class NormedRows:
    """Causal self-attention whose queries and keys are normalised as rows of all heads: OLMo 2, and
    StableLM 2, whose heads have a norm each.

    Attributes:
        q_norm, k_norm: norms of the queries [count · size] and of the keys [kv_count · size].
    """

    layer: int
    heads: Heads
    q_norm: Norm
    k_norm: Norm

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        normed = [self.q_norm.emit(g, q), self.k_norm.emit(g, k), v]
        return SelfAttention(self.layer, self.heads).emit(g, normed, context)


@dataclass(frozen=True)
class ScaledQueries:
    """Causal self-attention whose queries have a factor of their position (Ministral 3)."""

    layer: int
    heads: Heads
    factors: QueryFactors

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        assert context.positions is not None, "an encoder has no cache"
        scaled = g.op.Mul(q, self.factors.emit(g, context.positions))
        return SelfAttention(self.layer, self.heads).emit(g, [scaled, k, v], context)


@dataclass(frozen=True)
class GatedAttention:
    """Causal self-attention whose result has a gate for each number (Qwen3.5).

    Its inputs are queries, keys, values and the gate [m, count · size].
    """

    attention: SelfAttention

    @property
    def widths(self) -> tuple[int, ...]:
        q, k, v = self.attention.widths
        return (q, k, v, q)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        *rows, gate = inputs
        return g.op.Mul(self.attention.emit(g, rows, context), g.op.Sigmoid(gate))


@dataclass(frozen=True)
class CrossAttention:
    """Attention of a decoder layer to the source, from queries."""

    layer: int
    heads: Heads

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.heads.count * self.heads.size,)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        (q,) = inputs
        assert context.positions is not None, "an encoder has no source"
        return context.attention.cross(g, q, self.heads, self.layer, context.positions)


@dataclass(frozen=True)
class EncoderAttention:
    """Every row attends to every other, maybe with a bias for their distance.

    Attributes:
        bias: of this layer alone, as that of `SelfAttention`.
    """

    heads: Heads
    bias: RelativeBias | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        assert not isinstance(context.encoding, Angles), "an encoder's positions are a bias"
        q, k, v = inputs
        bias = context.encoding
        if self.bias is not None:
            assert bias is not None, "a bias is one of distances"
            bias = self.bias.emit(g, bias)
        return context.attention.full(g, Projections(q, k, v, self.heads), bias)


def _widths(heads: Heads) -> tuple[int, ...]:
    """Widths of queries, keys and values."""
    return (heads.count * heads.size, heads.kv_count * heads.size, heads.kv_count * heads.size)
