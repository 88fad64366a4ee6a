"""Attention of a block of rows that see each other, and what the cache has of the text before."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.heads import Projections, by_head
from edgespec_export.components.attention.standard_attention import (
    attend,
    cache_buffers,
    hidden_where_not,
)
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["BlockSight", "block_attention"]


@dataclass(frozen=True)
class BlockSight:
    """What the rows of a block see.

    Attributes:
        queries: int64 [b], their positions.
        window: how many positions before the block; None if all.
        is_causal: of the block, only rows before them, and themselves.
    """

    queries: ir.Value
    window: int | None
    is_causal: bool

    def bias(self, g: Graph, positions: Positions) -> ir.Value | None:
        """[1, 1, b, total]; None where every row sees every key."""
        keys, seen = positions.keys(g), None
        if self.window is not None:
            first = g.op.Slice(self.queries, g.ints(0), g.ints(1), g.ints(0))
            seen = g.op.GreaterOrEqual(keys, g.op.Sub(first, g.ints(self.window)))
            seen = g.op.Unsqueeze(seen, g.ints(0))
        if self.is_causal:
            before = g.op.LessOrEqual(keys, g.op.Unsqueeze(self.queries, g.ints(1)))
            seen = before if seen is None else g.op.And(seen, before)
        if seen is None:
            return None
        every = g.op.Concat(g.op.Shape(self.queries), g.op.Shape(keys), axis=0)
        return hidden_where_not(g, g.op.Expand(seen, every))


def block_attention(
    g: Graph,
    rows: Projections,
    layer: int,
    attention: Attention,
    positions: Positions,
    sight: BlockSight,
) -> ir.Value:
    """[b, count · size] of the last rows of a call; writes keys and values of all to the cache.

    Args:
        rows: queries [b, count · size] of the block, keys and values of all rows of the call; both
            are rotated already.
        attention: whose cache it is.
    """
    heads = rows.heads
    keys, values = (
        attention.cache.extended(g, buffer, by_head(g, new, heads.kv_count, heads), positions)
        for buffer, new in zip(cache_buffers(heads, layer), (rows.k, rows.v), strict=True)
    )
    q = by_head(g, rows.q, heads.count, heads)
    return attend(g, q, keys, values, heads, sight.bias(g, positions))
