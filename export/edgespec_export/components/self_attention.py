"""The middle of an attention block: self-attention, cross-attention, an encoder's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.attention import Heads, Projections
from edgespec_export.components.blocks import Call
from edgespec_export.components.norm import RmsNorm
from edgespec_export.components.positions import Angles
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["CrossAttention", "EncoderAttention", "SelfAttention"]


@dataclass(frozen=True)
class SelfAttention:
    """Causal self-attention of a decoder layer, from queries, keys and values.

    Attributes:
        q_norm, k_norm: norms of each head of the queries and of the keys, [size].
    """

    layer: int
    heads: Heads
    q_norm: RmsNorm | None = None
    k_norm: RmsNorm | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], call: Call) -> ir.Value:
        q, k, v = inputs
        if self.q_norm is not None:
            q = self._normed_heads(g, q, self.q_norm, self.heads.count)
        if self.k_norm is not None:
            k = self._normed_heads(g, k, self.k_norm, self.heads.kv_count)
        assert call.positions is not None, "an encoder has no cache"
        assert call.encoding is not None, "a cache needs positions"
        rows = Projections(q, k, v, self.heads)
        return call.attention.cached(g, rows, self.layer, call.positions, call.encoding)

    def _normed_heads(self, g: Graph, x: ir.Value, norm: RmsNorm, count: int) -> ir.Value:
        heads = g.op.Reshape(x, g.ints(-1, self.heads.size))
        return g.op.Reshape(norm.emit(g, heads), g.ints(-1, count * self.heads.size))


@dataclass(frozen=True)
class CrossAttention:
    """Attention of a decoder layer to the source, from queries."""

    layer: int
    heads: Heads

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.heads.count * self.heads.size,)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], call: Call) -> ir.Value:
        (q,) = inputs
        return call.attention.cross(g, q, self.heads, self.layer)


@dataclass(frozen=True)
class EncoderAttention:
    """Every row attends to every other, maybe with a bias for their distance."""

    heads: Heads

    @property
    def widths(self) -> tuple[int, ...]:
        return _widths(self.heads)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], call: Call) -> ir.Value:
        assert not isinstance(call.encoding, Angles), "an encoder's positions are a bias"
        q, k, v = inputs
        return call.attention.full(g, Projections(q, k, v, self.heads), call.encoding)


def _widths(heads: Heads) -> tuple[int, ...]:
    """Widths of queries, keys and values."""
    return (heads.count * heads.size, heads.kv_count * heads.size, heads.kv_count * heads.size)
