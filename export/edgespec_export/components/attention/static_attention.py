"""Attention of calls whose shapes are fixed, by operators that the compilers of NPUs have.

A graph reads a layer's cache and returns the keys and values of the call's rows, which the host
writes into the cache. In the call itself they are put in the same places: a key then has the same
place among all keys in whatever call its position was computed, and sums have the same bits.
What depends on positions alone is left to the host (passes/split_host.py).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.artifact.static_calls import SOURCE_LENGTH
from edgespec.errors import EdgespecError
from edgespec_export.components.attention.attention import Attention, PositionEncoding, cache_shape
from edgespec_export.components.attention.cross_attention import cross_inputs
from edgespec_export.components.attention.heads import (
    Heads,
    Projections,
    apply_rotary,
    by_head,
    normed_rows,
)
from edgespec_export.components.attention.kv_cache import Buffer, Cache, CachedRows
from edgespec_export.components.positions import Angles, Positions
from edgespec_export.onnx_graph.graph import FixedCall, Graph
from edgespec_export.operators.activations import capped

__all__ = ["StaticAttention"]

# What is added to the scores of hidden keys: exp of it is 0, and it is a number of 16 bits, too.
HIDDEN = -30000.0


class StaticAttention(Attention):
    """Self-attention over all positions of the cache, and attention to a source of fixed length.

    Args:
        call: the sizes of the graph's calls.
        label: of the model, for messages.
    """

    supports_layouts = supports_sources = False
    operators_of = None

    def __init__(self, call: FixedCall, label: str) -> None:
        self._call = call
        self._label = label
        self.cache = _NoCache(label)
        self._source_mask: ir.Value | None = None

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        heads = rows.heads
        if rows.source is not None:
            raise _not_static(self._label, "attends to its source and its cache at once")
        q, k = normed_rows(g, rows)
        mask = self._mask(g, positions, heads.window)
        if isinstance(encoding, Angles):
            q = apply_rotary(g, q, heads.count, encoding, heads)
            k = apply_rotary(g, k, heads.kv_count, encoding, heads)
        else:
            mask = g.op.Add(self._by_key_head(g, encoding, heads), mask)
        keys, values = (
            self._written(g, name, by_head(g, new, heads.kv_count, heads), heads, positions)
            for name, new in zip(
                zip(graph_io.past_names(layer), graph_io.present_names(layer), strict=True),
                (k, rows.v),
                strict=True,
            )
        )
        return self._attend(g, q, keys, values, heads, mask)

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = cross_inputs(g, heads, layer)
        if self._source_mask is None:
            count = g.input(SOURCE_LENGTH, np.int64, [1])
            seen = g.op.Less(g.constant(np.arange(self._call.source or 0), np.int64), count)
            self._source_mask = g.op.Unsqueeze(_hiding(g, seen), g.ints(0, 1, 2))
        return self._attend(g, q, keys, values, heads, self._source_mask)

    def kept(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        raise _not_static(self._label, "has layers that share a layer of the cache")

    def borrowed(self, g: Graph, heads: Heads, layer: int) -> None:
        raise _not_static(self._label, "reads another model's cache")

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        raise _not_static(self._label, "has an encoder in its decoder")

    def _written(
        self,
        g: Graph,
        names: tuple[str, str],
        rows: ir.Value,
        heads: Heads,
        positions: Positions,
    ) -> ir.Value:
        """A buffer [1, kv_count, capacity, size] with this call's rows [1, kv_count, m, size] in
        their places; adds the buffer and the rows to the graph."""
        past_name, present_name = names
        past = g.input(past_name, np.float32, cache_shape(heads, heads.size))
        g.output(present_name, rows, np.float32, (1, heads.kv_count, "m", heads.size))
        places = g.constant(np.arange(self._call.capacity)[:, None], np.int64)
        of_rows = g.op.Add(positions.past, g.constant(np.arange(self._call.rows), np.int64))
        belongs = g.op.Equal(places, of_rows)  # [capacity, m]: whether a row belongs in a place
        taken = g.op.Cast(belongs, to=ir.DataType.FLOAT)
        kept = g.op.Sub(g.constant(1, np.float32), g.op.ReduceMax(taken, g.ints(1), keepdims=1))
        # A sum of one number and zeros: the bits of the number.
        return g.op.Add(g.op.Mul(past, kept), g.op.MatMul(taken, rows))

    def _mask(self, g: Graph, positions: Positions, window: int | None) -> ir.Value:
        """What hides keys from queries, [1, 1, m, capacity]."""
        keys = g.constant(np.arange(self._call.capacity), np.int64)
        queries = g.op.Unsqueeze(positions.queries, g.ints(1))
        seen = g.op.LessOrEqual(keys, queries)
        if window is not None:
            seen = g.op.And(seen, g.op.Greater(keys, g.op.Sub(queries, g.ints(window))))
        return g.op.Unsqueeze(_hiding(g, seen), g.ints(0, 1))

    def _by_key_head(self, g: Graph, bias: ir.Value, heads: Heads) -> ir.Value:
        """A bias [1, count, m, capacity] as [kv_count, group, m, capacity]."""
        group = heads.count // heads.kv_count
        return g.op.Reshape(bias, g.ints(heads.kv_count, group, -1, self._call.capacity))

    def _attend(
        self, g: Graph, q: ir.Value, k: ir.Value, v: ir.Value, heads: Heads, mask: ir.Value
    ) -> ir.Value:
        """softmax(cap(q · kᵀ · scale) + mask) · v, [m, count · size].

        The query heads that share a key head are rows of one matrix.

        Args:
            q: [m, count · size].
            k, v: [1, kv_count, keys, size].
            mask: [kv_count or 1, group or 1, m or 1, keys].
        """
        rows, (kv_count, size) = self._call.rows, (heads.kv_count, heads.size)
        group = heads.count // kv_count
        grouped = g.op.Reshape(by_head(g, q, heads.count, heads), g.ints(kv_count, -1, size))
        if heads.scale != 1:
            grouped = g.op.Mul(grouped, g.constant(heads.scale, np.float32))
        keys, values = (g.op.Reshape(x, g.ints(kv_count, -1, size)) for x in (k, v))
        scores = g.op.MatMul(grouped, g.op.Transpose(keys, perm=[0, 2, 1]))
        if heads.cap is not None:
            scores = capped(g, scores, heads.cap)
        scores = g.op.Add(g.op.Reshape(scores, g.ints(kv_count, group, rows, -1)), mask)
        weights = g.op.Reshape(g.op.Softmax(scores, axis=-1), g.ints(kv_count, group * rows, -1))
        out = g.op.Reshape(g.op.MatMul(weights, values), g.ints(heads.count, rows, size))
        by_row = g.op.Transpose(out, perm=[1, 0, 2])
        return g.op.Reshape(by_row, g.ints(rows, heads.count * size))


class _NoCache(Cache):
    """In the place of a cache that a layer without attention writes."""

    def __init__(self, label: str) -> None:
        self._error = _not_static(label, "has layers that keep more than keys and values")

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        raise self._error

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        raise self._error

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        raise self._error

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        raise self._error


def _not_static(label: str, reason: str) -> EdgespecError:
    return EdgespecError(
        f"{label} {reason}, which edgespec does not export for NPUs yet; leave --for npu out"
    )


def _hiding(g: Graph, seen: ir.Value) -> ir.Value:
    """0 where a key is seen, elsewhere `HIDDEN`."""
    return g.op.Where(seen, g.constant(0, np.float32), g.constant(HIDDEN, np.float32))
