"""Attention over a static cache, in ONNX Runtime's fused operators or in standard ones.

A cache buffer is [1, heads, capacity, head_size]. It enters as `past` and leaves as `present`, and
a runtime binds both to the same memory. A call writes its own positions and reads none behind
them, so rewinding is a smaller `past_length`.

benchmarks/attention.py compares the two; docs/decisions/0002-attention.md says what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.blocks import Positions
from edgespec_export.components.kv_cache import CACHES, Buffer, Cache, FullCache, Kept
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.attention_ops import (
    BIASED_ATTENTION,
    ROTARY_ATTENTION,
    SOURCE_ATTENTION,
)

__all__ = [
    "Angles",
    "Attention",
    "Fused",
    "Heads",
    "Mixed",
    "Standard",
    "attention_for",
    "source_shape",
]


@dataclass(frozen=True)
class Heads:
    """Attributes:
    count: query heads.
    kv_count: key and value heads; `count` is a multiple of it.
    size: width of a head.
    scale: factor on query · key.
    """

    count: int
    kv_count: int
    size: int
    scale: float


@dataclass(frozen=True)
class Angles:
    """Rotary positions of a call: cosines and sines [1, m, size / 2]. Halves of a head are turned,
    not neighbours."""

    cos: ir.Value
    sin: ir.Value


class Attention(Protocol):
    """Queries are [m, count · size], keys and values [m, kv_count · size]; so is the result [m, …].

    A bias is [1, count, m, keys] and is added to the scores before the softmax.

    Attributes:
        trees: it knows candidates, where there are kernels for it (`Positions.parents`).
    """

    @property
    def trees(self) -> bool: ...

    def cached(
        self,
        g: Graph,
        q: ir.Value,
        k: ir.Value,
        v: ir.Value,
        heads: Heads,
        layer: int,
        positions: Positions,
        places: Angles | ir.Value,
    ) -> ir.Value:
        """Causal self-attention of a decoder layer; adds the layer's cache to the graph.

        Args:
            places: what tells positions apart, angles or a bias.
        """
        ...

    def cross(self, g: Graph, q: ir.Value, heads: Heads, layer: int) -> ir.Value:
        """Attention to the source; its keys and values are inputs of the graph."""
        ...

    def full(
        self, g: Graph, q: ir.Value, k: ir.Value, v: ir.Value, heads: Heads, bias: ir.Value
    ) -> ir.Value:
        """Every position attends to every other: the encoder."""
        ...


def attention_for(heads: Heads, cache: str = "fp32") -> Attention:
    """The fused operators where they take this head size and this cache, and keep rows apart.

    They work on blocks of 2 · head_size positions, and a block of one position is another kernel
    with other last bits: a head must be wide enough for a whole verification to fit a block. They
    take no cache with a scale for each position (docs/decisions/0007-cache-formats.md).
    """
    widest = Fused() if heads.size % 8 == 0 and heads.size >= 16 else Standard()
    return widest if cache == "fp32" else Mixed(Standard(CACHES[cache]()), widest)


class Fused:
    """Functions around `GroupQueryAttention` and `MultiHeadAttention` of ONNX Runtime."""

    trees = True

    def cached(
        self,
        g: Graph,
        q: ir.Value,
        k: ir.Value,
        v: ir.Value,
        heads: Heads,
        layer: int,
        positions: Positions,
        places: Angles | ir.Value,
    ) -> ir.Value:
        last = g.op.Cast(g.op.Sub(positions.total, g.ints(1)), to=ir.DataType.INT32)  # [1]
        total = g.op.Cast(positions.end, to=ir.DataType.INT32)  # scalar
        inputs = [q, k, v, *_past(g, heads, layer), last, total, positions.parents]
        if isinstance(places, Angles):
            function, inputs = ROTARY_ATTENTION, [*inputs, places.cos, places.sin]
        else:
            function, inputs = BIASED_ATTENTION, [*inputs, places]
        out, key, value = g.call(function, *inputs, **_attributes(heads))
        _present(g, key, value, heads, layer)
        return out

    def cross(self, g: Graph, q: ir.Value, heads: Heads, layer: int) -> ir.Value:
        keys, values = _cross_inputs(g, heads, layer)
        (out,) = g.call(SOURCE_ATTENTION, q, keys, values, **_attributes(heads))
        return out

    def full(
        self, g: Graph, q: ir.Value, k: ir.Value, v: ir.Value, heads: Heads, bias: ir.Value
    ) -> ir.Value:
        no_biases = [None, None]  # of the projections, of the keys' padding
        batch = [_batched(g, x) for x in (q, k, v)]
        (out,) = g.contrib(
            "MultiHeadAttention",
            [*batch, *no_biases, bias],
            outputs=1,
            num_heads=heads.count,
            scale=heads.scale,
        )
        return _rows(g, out, heads)


class Standard:
    """Operators of the ONNX standard only: any head size, any cache, any execution provider."""

    trees = False

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache or FullCache()

    def cached(
        self,
        g: Graph,
        q: ir.Value,
        k: ir.Value,
        v: ir.Value,
        heads: Heads,
        layer: int,
        positions: Positions,
        places: Angles | ir.Value,
    ) -> ir.Value:
        bias = _causal_mask(g, positions)
        if isinstance(places, Angles):
            q = _rotated(g, q, heads.count, places, heads)
            k = _rotated(g, k, heads.kv_count, places, heads)
        else:
            bias = g.op.Add(places, bias)
        names = zip(graph_io.past_names(layer), graph_io.present_names(layer), strict=True)
        buffers = [Buffer(past, present, _cache_shape(heads)) for past, present in names]
        keys, values = (
            self._cache.extended(g, buffer, _split(g, new, heads.kv_count, heads), positions)
            for buffer, new in zip(buffers, (k, v), strict=True)
        )
        return _attend(g, _split(g, q, heads.count, heads), keys, values, heads, bias)

    def cross(self, g: Graph, q: ir.Value, heads: Heads, layer: int) -> ir.Value:
        keys, values = (Kept(rows) for rows in _cross_inputs(g, heads, layer))
        return _attend(g, _split(g, q, heads.count, heads), keys, values, heads, None)

    def full(
        self, g: Graph, q: ir.Value, k: ir.Value, v: ir.Value, heads: Heads, bias: ir.Value
    ) -> ir.Value:
        q, k, v = (_split(g, x, heads.count, heads) for x in (q, k, v))
        return _attend(g, q, Kept(k), Kept(v), heads, bias)


class Mixed:
    """One attention for what the decoder keeps, another for what the encoder made."""

    def __init__(self, cached: Attention, others: Attention) -> None:
        self.trees = cached.trees
        self.cached = cached.cached
        self.cross = others.cross
        self.full = others.full


def _attend(
    g: Graph, q: ir.Value, k: Kept, v: Kept, heads: Heads, bias: ir.Value | None
) -> ir.Value:
    """softmax(q · kᵀ · scale + bias) · v; q [1, count, m, size], k and v [1, kv_count, keys, size].

    The query heads that share a key head stand below each other in one matrix.
    """
    grouped = g.op.Reshape(q, g.ints(1, heads.kv_count, -1, heads.size))
    scores = g.op.MatMul(grouped, g.op.Transpose(k.rows, perm=[0, 1, 3, 2]))
    scores = g.op.Mul(scores, g.constant(heads.scale, np.float32))
    if k.factors is not None:
        scores = g.op.Mul(scores, k.factors)
    if bias is not None:
        scores = g.op.Add(scores, _grouped(g, bias, heads))
    weights = g.op.Softmax(scores, axis=-1)
    if v.factors is not None:
        weights = g.op.Mul(weights, v.factors)
    out = g.op.MatMul(weights, v.rows)
    out = g.op.Reshape(out, g.ints(1, heads.count, -1, heads.size))
    return _rows(g, g.op.Transpose(out, perm=[0, 2, 1, 3]), heads)


def _grouped(g: Graph, bias: ir.Value, heads: Heads) -> ir.Value:
    """[1, count or 1, m, keys] to [1, kv_count, count / kv_count · m, keys].

    Nothing here is of one layer, so the optimizer computes it once a call.
    """
    every = g.op.Expand(bias, g.ints(1, heads.count, 1, 1))
    keys = g.op.Shape(bias, start=3, end=4)
    return g.op.Reshape(every, g.op.Concat(g.ints(1, heads.kv_count, -1), keys, axis=0))


def _causal_mask(g: Graph, positions: Positions) -> ir.Value:
    """[1, 1, m, total]: 0 where a query may look, a number that softmax turns into 0 elsewhere."""
    keys = g.op.Range(g.constant(0, np.int64), positions.end, g.constant(1, np.int64))
    seen = g.op.LessOrEqual(keys, g.op.Unsqueeze(positions.queries, g.ints(1)))  # [m, total]
    mask = g.op.Where(seen, g.constant(0, np.float32), g.constant(-1e30, np.float32))
    return g.op.Unsqueeze(mask, g.ints(0, 1))


def _attributes(heads: Heads) -> dict[str, int | float]:
    """Of the functions that attend."""
    return {"num_heads": heads.count, "kv_num_heads": heads.kv_count, "scale": heads.scale}


def _rotated(g: Graph, x: ir.Value, count: int, angles: Angles, heads: Heads) -> ir.Value:
    """Rotary positions on [m, count · size]."""
    turned = g.op.RotaryEmbedding(_batched(g, x), angles.cos, angles.sin, num_heads=count)
    return g.op.Reshape(turned, g.ints(-1, count * heads.size))


def _batched(g: Graph, x: ir.Value) -> ir.Value:
    """[m, width] to [1, m, width]."""
    return g.op.Unsqueeze(x, g.ints(0))


def _rows(g: Graph, x: ir.Value, heads: Heads) -> ir.Value:
    """[1, m, …] to [m, count · size]."""
    return g.op.Reshape(x, g.ints(-1, heads.count * heads.size))


def _split(g: Graph, x: ir.Value, count: int, heads: Heads) -> ir.Value:
    """[m, count · size] to [1, count, m, size]."""
    return g.op.Transpose(g.op.Reshape(x, g.ints(1, -1, count, heads.size)), perm=[0, 2, 1, 3])


def _past(g: Graph, heads: Heads, layer: int) -> list[ir.Value]:
    return [g.input(name, np.float32, _cache_shape(heads)) for name in graph_io.past_names(layer)]


def _present(g: Graph, key: ir.Value, value: ir.Value, heads: Heads, layer: int) -> None:
    for name, cache in zip(graph_io.present_names(layer), (key, value), strict=True):
        g.output(name, cache, np.float32, _cache_shape(heads))


def _cross_inputs(g: Graph, heads: Heads, layer: int) -> list[ir.Value]:
    return [g.input(name, np.float32, source_shape(heads)) for name in graph_io.cross_names(layer)]


def source_shape(heads: Heads) -> tuple[int | str, ...]:
    """Of cross-attention keys and values."""
    return (1, heads.count, "source", heads.size)


def _cache_shape(heads: Heads) -> tuple[int | str, ...]:
    return (1, heads.kv_count, "capacity", heads.size)
