"""Attention by operators of the ONNX standard only."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import Attention, PositionEncoding, cache_shape
from edgespec_export.components.attention.cross_attention import cross_inputs
from edgespec_export.components.attention.heads import (
    Heads,
    Projections,
    apply_rotary,
    by_head,
    normed_rows,
)
from edgespec_export.components.attention.kv_cache import Buffer, Cache, CachedRows, FullCache
from edgespec_export.components.positions import Angles, Positions
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import capped

__all__ = ["Standard", "attend", "attention_shares", "cache_buffers", "hidden_where_not"]


class Standard(Attention):
    """Operators of the ONNX standard only: any head size, any cache, any execution provider."""

    supports_layouts = supports_sources = False
    operators_of = None

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache or FullCache()

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        heads = rows.heads
        q, k = normed_rows(g, rows)
        bias = hidden_where_not(g, _seen(g, positions, heads.window))
        if isinstance(encoding, Angles):
            q = apply_rotary(g, q, heads.count, encoding, heads)
            k = apply_rotary(g, k, heads.kv_count, encoding, heads)
        else:
            bias = g.op.Add(encoding, bias)
        keys, values = (
            self.cache.extended(g, buffer, by_head(g, new, heads.kv_count, heads), positions)
            for buffer, new in zip(cache_buffers(heads, layer), (k, rows.v), strict=True)
        )
        if rows.source is not None:
            of_source = rows.source
            keys, values = (
                _after(g, *both) for both in zip(of_source, (keys, values), strict=True)
            )
            bias = _after_zeros(g, bias, g.op.Shape(of_source[0], start=2, end=3))
        sinks = None if rows.sinks is None else g.weight(rows.sinks)
        return attend(g, by_head(g, q, heads.count, heads), keys, values, heads, bias, sinks)

    def kept(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = (self.cache.kept(g, b, positions) for b in cache_buffers(heads, layer))
        bias = hidden_where_not(g, _seen(g, positions, heads.window))
        return attend(g, by_head(g, q, heads.count, heads), keys, values, heads, bias)

    def borrowed(self, g: Graph, heads: Heads, layer: int) -> None:
        for buffer in cache_buffers(heads, layer):
            self.cache.borrowed(g, buffer)

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = (CachedRows(rows) for rows in cross_inputs(g, heads, layer))
        return attend(g, by_head(g, q, heads.count, heads), keys, values, heads, None)

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        heads = rows.heads
        q = by_head(g, rows.q, heads.count, heads)
        k, v = (by_head(g, x, heads.kv_count, heads) for x in (rows.k, rows.v))
        return attend(g, q, CachedRows(k), CachedRows(v), heads, bias)


def cache_buffers(heads: Heads, layer: int) -> list[Buffer]:
    """Of a layer's keys and values."""
    names = zip(graph_io.past_names(layer), graph_io.present_names(layer), strict=True)
    return [Buffer(*pair, cache_shape(heads, heads.size)) for pair in names]


def _after(g: Graph, source: ir.Value, cached: CachedRows) -> CachedRows:
    """Rows of a source, then those of the cache, [1, kv_count, source + total, size].

    The source comes first, so that its rows stay where they are however many a call adds.
    """
    rows = g.op.Concat(source, cached.rows, axis=2)
    if cached.factors is None:
        return CachedRows(rows)
    ones = g.op.Expand(g.constant(1, np.float32), g.op.Shape(source, start=1, end=3))
    ones = g.op.Unsqueeze(ones, g.ints(0, 2))  # [1, kv_count, 1, source]
    return CachedRows(rows, g.op.Concat(ones, cached.factors, axis=3))


def _after_zeros(g: Graph, bias: ir.Value, count: ir.Value) -> ir.Value:
    """A bias [1, 1, m, keys] with zeros for `count` keys before the others."""
    added = g.op.Concat(g.ints(0, 0, 0), count, g.ints(0, 0, 0, 0), axis=0)
    return g.op.Pad(bias, added, g.constant(0, np.float32), mode="constant")


def attend(
    g: Graph,
    q: ir.Value,
    k: CachedRows,
    v: CachedRows,
    heads: Heads,
    bias: ir.Value | None,
    sinks: ir.Value | None = None,
) -> ir.Value:
    """softmax(cap(q · kᵀ · scale) + bias) · v, with the cap of the heads if they have one.

    q is [1, count, m, size], k and v [1, kv_count, keys, size]; `sinks` [count] are scores of one
    more key, without a value.
    """
    weights = attention_shares(g, q, k, heads, bias, sinks)
    if v.factors is not None:
        weights = g.op.Mul(weights, v.factors)
    out = g.op.MatMul(weights, v.rows)
    out = g.op.Reshape(out, g.ints(1, heads.count, -1, heads.size))
    rows = g.op.Transpose(out, perm=[0, 2, 1, 3])  # [1, m, count, size]
    return g.op.Reshape(rows, g.ints(-1, heads.count * heads.size))


def attention_shares(
    g: Graph,
    q: ir.Value,
    k: CachedRows,
    heads: Heads,
    bias: ir.Value | None,
    sinks: ir.Value | None = None,
) -> ir.Value:
    """What share of a query each key has, [1, kv_count, count / kv_count · m, keys]; see `attend`.

    The query heads that share a key head are rows of one matrix.
    """
    grouped = g.op.Reshape(q, g.ints(1, heads.kv_count, -1, heads.size))
    scores = g.op.MatMul(grouped, g.op.Transpose(k.rows, perm=[0, 1, 3, 2]))
    scores = g.op.Mul(scores, g.constant(heads.scale, np.float32))
    if k.factors is not None:
        scores = g.op.Mul(scores, k.factors)
    if heads.cap is not None:
        scores = capped(g, scores, heads.cap)
    if bias is not None:
        scores = g.op.Add(scores, _grouped(g, bias, heads))
    return _softmax(g, scores, heads, sinks)


def _softmax(g: Graph, scores: ir.Value, heads: Heads, sinks: ir.Value | None) -> ir.Value:
    """The shares of the keys, [1, kv_count, rows, keys]; what a sink takes is left out."""
    if sinks is None:
        return g.op.Softmax(scores, axis=-1)
    shared = heads.count // heads.kv_count
    each = g.op.Reshape(sinks, g.ints(1, heads.kv_count, shared, 1))
    rows = g.op.Div(g.op.Shape(scores, start=2, end=3), g.ints(shared))
    every_row = g.op.Concat(g.ints(1, heads.kv_count, shared), rows, axis=0)
    first = g.op.Reshape(g.op.Expand(each, every_row), g.ints(1, heads.kv_count, -1, 1))
    weights = g.op.Softmax(g.op.Concat(first, scores, axis=3), axis=-1)
    return g.op.Slice(weights, g.ints(1), g.ints(np.iinfo(np.int64).max), g.ints(3))


def _grouped(g: Graph, bias: ir.Value, heads: Heads) -> ir.Value:
    """[1, count or 1, m, keys] to [1, kv_count, count / kv_count · m, keys].

    Nothing here depends on a layer, so the optimizer computes it once a call.
    """
    every = g.op.Expand(bias, g.ints(1, heads.count, 1, 1))
    keys = g.op.Shape(bias, start=3, end=4)
    return g.op.Reshape(every, g.op.Concat(g.ints(1, heads.kv_count, -1), keys, axis=0))


def _seen(g: Graph, positions: Positions, window: int | None) -> ir.Value:
    """Which keys each query sees, [m, total]."""
    queries = g.op.Unsqueeze(positions.queries, g.ints(1))
    seen = g.op.LessOrEqual(positions.keys(g), queries)
    return seen if window is None else g.op.And(seen, _in_window(g, positions, window))


def _in_window(g: Graph, positions: Positions, window: int) -> ir.Value:
    """Which keys are not before each query's window, [m, total]."""
    last_hidden = g.op.Sub(positions.queries, positions.number(g, window))
    return g.op.Greater(positions.keys(g), g.op.Unsqueeze(last_hidden, g.ints(1)))


def hidden_where_not(g: Graph, seen: ir.Value) -> ir.Value:
    """[m, total] to [1, 1, m, total]: 0 where a key is seen, elsewhere a number that softmax
    makes 0."""
    mask = g.op.Where(seen, g.constant(0, np.float32), g.constant(-1e30, np.float32))
    return g.op.Unsqueeze(mask, g.ints(0, 1))
