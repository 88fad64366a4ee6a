"""Attention of a graph that says which part of the source each token of a text is about."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import onnx_ir as ir

from edgespec_export.components.attention.cross_attention import cross_inputs
from edgespec_export.components.attention.heads import Heads, by_head
from edgespec_export.components.attention.kv_cache import Buffer, CachedRows, FullCache
from edgespec_export.components.attention.standard_attention import (
    Standard,
    attend,
    attention_shares,
)
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Aligning"]


class Aligning(Standard):
    """Reads a text from its first token, without a cache, and keeps what shares of some heads of
    cross-attention the source's positions have.

    Args:
        heads: layer and head of each.
    """

    def __init__(self, heads: Iterable[tuple[int, int]]) -> None:
        super().__init__(_NoCache())
        by_layer = groupby(sorted(heads), key=lambda pair: pair[0])
        self._wanted = {layer: [head for _, head in pairs] for layer, pairs in by_layer}
        self._found: list[ir.Value] = []

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        assert heads.kv_count == heads.count, "heads of queries share those of keys"
        keys, values = (CachedRows(rows) for rows in cross_inputs(g, heads, layer))
        queries = by_head(g, q, heads.count, heads)
        if layer in self._wanted:
            shares = attention_shares(g, queries, keys, heads, None)
            self._found.append(g.op.Gather(shares, g.ints(*self._wanted[layer]), axis=1))
        return attend(g, queries, keys, values, heads, None)

    def shares(self, g: Graph) -> ir.Value:
        """Of all heads, sorted by layer, [heads, m, source]; each row's sum is 1."""
        return g.op.Squeeze(g.op.Concat(*self._found, axis=1), g.ints(0))


class _NoCache(FullCache):
    """A text that is read at once: its keys and values are those of the call."""

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        return CachedRows(rows)
