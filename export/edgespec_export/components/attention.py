"""Attention over a static cache, by ONNX Runtime's fused operators or by standard ones.

A cache buffer is [1, kv_heads, capacity, head_size]. It enters as `past` and leaves as `present`,
and a runtime binds both to the same memory. A call writes the positions of its rows and reads none
after them, so a rewind is a smaller `past_length`.

benchmarks/attention.py compares the two; docs/decisions/0002-attention.md records the choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.kv_cache import CACHES, Buffer, Cache, CachedRows, FullCache
from edgespec_export.components.norm import RmsNorm
from edgespec_export.components.positions import NO_SOURCES, Angles, Positions
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.attention_ops import ENCODER_ATTENTION, SOURCE_ATTENTION
from edgespec_export.operators.narrow_cache_ops import SELF_ATTENTION

__all__ = [
    "Attention",
    "Fused",
    "HeadNorms",
    "Heads",
    "PositionEncoding",
    "Projections",
    "Standard",
    "apply_rotary",
    "attention_for",
    "cross_outputs",
    "normed_heads",
]

# What tells attention the positions: rotary angles, or a bias [1, heads, m, keys] that is added to
# the scores before the softmax.
PositionEncoding = Angles | ir.Value


@dataclass(frozen=True)
class Heads:
    """The heads of an attention.

    Attributes:
        count: query heads.
        kv_count: key and value heads; `count` is a multiple of it.
        size: width of a head.
        scale: factor on query · key.
        window: how many positions a query of self-attention sees, its own included; None if all
            before it (docs/decisions/0027-windows.md).
    """

    count: int
    kv_count: int
    size: int
    scale: float
    window: int | None = None


@dataclass(frozen=True)
class HeadNorms:
    """Norms of each head of queries and keys.

    Attributes:
        q, k: names of their weights [size].
    """

    q: str
    k: str
    epsilon: float


@dataclass(frozen=True)
class Projections:
    """Queries [m, count · size], keys and values [m, kv_count · size] of a call's rows.

    Attributes:
        norms: of queries and keys, which come before rotary positions; None if there are none.
    """

    q: ir.Value
    k: ir.Value
    v: ir.Value
    heads: Heads
    norms: HeadNorms | None = None


class Attention(ABC):
    """Emits attention. Results are [m, count · size].

    Attributes:
        supports_layouts: rows of a call may say where they stand (`Positions.layouts`), where there
            are kernels for it.
        supports_sources: they may see parts of a source (`Positions.sources`), likewise.
        cache: the format of its keys and values.
    """

    supports_layouts: bool
    supports_sources: bool
    cache: Cache

    @abstractmethod
    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        """Causal self-attention of a decoder layer; adds the layer's cache to the graph."""

    @abstractmethod
    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        """Attention of queries [m, count · size] to the source, whose keys and values are inputs
        of the graph."""

    @abstractmethod
    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        """Every row attends to every other: an encoder."""


def attention_for(heads: Heads, cache: str = "fp32") -> Attention:
    """Operators with kernels where they take this head size; those of ONNX Runtime for a float32
    cache where they keep rows apart, too. Else standard ones.

    ONNX Runtime's take no cache with a scale for each position
    (docs/decisions/0007-cache-formats.md).
    """
    others = Fused() if _fused_is_row_invariant(heads) else Standard()
    if cache == "fp32":
        return others
    with_kernels = heads.size % HEAD_MULTIPLE == 0
    return CompressedCache(Fused(cache) if with_kernels else Standard(CACHES[cache]()), others)


HEAD_MULTIPLE = 8  # GroupQueryAttention and our kernels take only head sizes that are multiples
BLOCK_PER_SIZE = 2  # positions that it computes as one block, for each number of a head


def _fused_is_row_invariant(heads: Heads) -> bool:
    """Whether the largest verification fits into one block of the fused operator.

    A block of one position is computed by another kernel with other last bits, so a call that
    spans several blocks could leave its last row alone in one. The operator has a spare row.
    """
    fits = BLOCK_PER_SIZE * heads.size >= graph_io.MAX_ROWS + graph_io.SPARE_POSITIONS
    return heads.size % HEAD_MULTIPLE == 0 and fits


class Fused(Attention):
    """Functions that have kernels. For a float32 cache, and for attention without one, their bodies
    are `GroupQueryAttention` and `MultiHeadAttention` of ONNX Runtime."""

    supports_layouts = supports_sources = True

    def __init__(self, cache: str = "fp32") -> None:
        self._format = cache
        self.cache = CACHES[cache]()

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        heads = rows.heads
        last = g.op.Cast(g.op.Sub(positions.total, g.ints(1)), to=ir.DataType.INT32)  # [1]
        total = g.op.Cast(positions.end, to=ir.DataType.INT32)  # scalar
        buffers = self._buffers(heads, layer)
        past = [g.input(b.past, b.dtype, _cache_shape(heads, b.width)) for b in buffers]
        kind, encoded, attributes = _encoded(g, rows, encoding)
        inputs = [rows.q, rows.k, rows.v, *past, last, total, positions.layouts, *encoded]
        function = SELF_ATTENTION[kind][self._format]
        out, *present = g.call(function, *inputs, **_attributes(heads), **attributes)
        for buffer, value in zip(buffers, present, strict=True):
            g.output(buffer.present, value, buffer.dtype, _cache_shape(heads, buffer.width))
        return out

    def _buffers(self, heads: Heads, layer: int) -> list[graph_io.Buffer]:
        """In the order of the functions' inputs: keys, values, then their scales."""
        buffers = graph_io.layer_buffers(layer, heads.size, self._format)
        each = len(buffers) // 2  # of keys, and of values
        return [buffers[i + kind * each] for i in range(each) for kind in range(2)]

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = _cross_inputs(g, heads, layer)
        parts = g.constant(NO_SOURCES, np.int64) if positions.sources is None else positions.sources
        (out,) = g.call(SOURCE_ATTENTION, q, keys, values, parts, **_attributes(heads))
        return out

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        heads = rows.heads
        if bias is None:  # the rows are their own source
            keys, values = (_by_head(g, x, heads.count, heads) for x in (rows.k, rows.v))
            all_of_it = g.constant(NO_SOURCES, np.int64)
            (out,) = g.call(SOURCE_ATTENTION, rows.q, keys, values, all_of_it, **_attributes(heads))
            return out
        inputs = [rows.q, rows.k, rows.v, bias]
        (out,) = g.call(ENCODER_ATTENTION, *inputs, **_attributes(heads))
        return out


class Standard(Attention):
    """Operators of the ONNX standard only: any head size, any cache, any execution provider."""

    supports_layouts = supports_sources = False

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
        heads, norms, q, k = rows.heads, rows.norms, rows.q, rows.k
        if norms is not None:
            q = normed_heads(g, q, RmsNorm(norms.q, norms.epsilon), heads.size)
            k = normed_heads(g, k, RmsNorm(norms.k, norms.epsilon), heads.size)
        bias = _mask(g, _seen(g, positions, heads.window))
        if isinstance(encoding, Angles):
            q = apply_rotary(g, q, heads.count, encoding, heads)
            k = apply_rotary(g, k, heads.kv_count, encoding, heads)
        else:
            bias = g.op.Add(encoding, bias)
        names = zip(graph_io.past_names(layer), graph_io.present_names(layer), strict=True)
        shape = _cache_shape(heads, heads.size)
        buffers = [Buffer(past, present, shape) for past, present in names]
        keys, values = (
            self.cache.extended(g, buffer, _by_head(g, new, heads.kv_count, heads), positions)
            for buffer, new in zip(buffers, (k, rows.v), strict=True)
        )
        return _attend(g, _by_head(g, q, heads.count, heads), keys, values, heads, bias)

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = (CachedRows(rows) for rows in _cross_inputs(g, heads, layer))
        return _attend(g, _by_head(g, q, heads.count, heads), keys, values, heads, None)

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        heads = rows.heads
        q, k, v = (_by_head(g, x, heads.count, heads) for x in (rows.q, rows.k, rows.v))
        return _attend(g, q, CachedRows(k), CachedRows(v), heads, bias)


class CompressedCache(Attention):
    """Self-attention of the decoder from a compressed cache, everything else from another."""

    def __init__(self, cached: Attention, others: Attention) -> None:
        self.supports_layouts = cached.supports_layouts
        self.supports_sources = others.supports_sources
        self.cache = cached.cache
        self._cached = cached
        self._others = others

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        return self._cached.cached(g, rows, layer, positions, encoding)

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        return self._others.cross(g, q, heads, layer, positions)

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        return self._others.full(g, rows, bias)


def _attend(
    g: Graph, q: ir.Value, k: CachedRows, v: CachedRows, heads: Heads, bias: ir.Value | None
) -> ir.Value:
    """softmax(q · kᵀ · scale + bias) · v; q [1, count, m, size], k and v [1, kv_count, keys, size].

    The query heads that share a key head are rows of one matrix.
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
    return _unbatched(g, g.op.Transpose(out, perm=[0, 2, 1, 3]), heads)


def _grouped(g: Graph, bias: ir.Value, heads: Heads) -> ir.Value:
    """[1, count or 1, m, keys] to [1, kv_count, count / kv_count · m, keys].

    Nothing here depends on a layer, so the optimizer computes it once a call.
    """
    every = g.op.Expand(bias, g.ints(1, heads.count, 1, 1))
    keys = g.op.Shape(bias, start=3, end=4)
    return g.op.Reshape(every, g.op.Concat(g.ints(1, heads.kv_count, -1), keys, axis=0))


def _encoded(
    g: Graph, rows: Projections, encoding: PositionEncoding
) -> tuple[str, list[ir.Value], dict[str, int | float]]:
    """The kind of self-attention, its last inputs and its further attributes."""
    window, norms = rows.heads.window, rows.norms
    if not isinstance(encoding, Angles):
        assert window is None, "attention with a learned bias and a window"
        assert norms is None, "attention with a learned bias and normed heads"
        return "Biased", [encoding], {}
    angles = [encoding.cos, encoding.sin]
    kind = "Rotary" if window is None else "Windowed"
    attributes: dict[str, int | float] = {} if window is None else {"window": window}
    if norms is None:
        return kind, angles, attributes
    weights = [g.weight(name) for name in (norms.q, norms.k)]
    return f"Normed{kind}", [*angles, *weights], {**attributes, "head_epsilon": norms.epsilon}


def _seen(g: Graph, positions: Positions, window: int | None) -> ir.Value:
    """Which keys each query sees, [m, total]."""
    queries = g.op.Unsqueeze(positions.queries, g.ints(1))
    seen = g.op.LessOrEqual(_keys(g, positions), queries)
    return seen if window is None else g.op.And(seen, _in_window(g, positions, window))


def _in_window(g: Graph, positions: Positions, window: int) -> ir.Value:
    """Which keys are not before each query's window, [m, total]."""
    last_hidden = g.op.Sub(positions.queries, g.ints(window))
    return g.op.Greater(_keys(g, positions), g.op.Unsqueeze(last_hidden, g.ints(1)))


def _keys(g: Graph, positions: Positions) -> ir.Value:
    """Positions of the valid keys, [total]."""
    return g.op.Range(g.constant(0, np.int64), positions.end, g.constant(1, np.int64))


def _mask(g: Graph, seen: ir.Value) -> ir.Value:
    """[m, total] to [1, 1, m, total]: 0 where a key is seen, elsewhere a number that softmax
    makes 0."""
    mask = g.op.Where(seen, g.constant(0, np.float32), g.constant(-1e30, np.float32))
    return g.op.Unsqueeze(mask, g.ints(0, 1))


def _attributes(heads: Heads) -> dict[str, int | float]:
    """Attributes of the functions of attention."""
    return {"num_heads": heads.count, "kv_num_heads": heads.kv_count, "scale": heads.scale}


def apply_rotary(g: Graph, x: ir.Value, count: int, angles: Angles, heads: Heads) -> ir.Value:
    """Applies rotary positions to [m, count · size]."""
    rows = g.op.RotaryEmbedding(_batched(g, x), angles.cos, angles.sin, num_heads=count)
    return g.op.Reshape(rows, g.ints(-1, count * heads.size))


def normed_heads(g: Graph, x: ir.Value, norm: RmsNorm, size: int) -> ir.Value:
    """The norm of each head of [m, heads · size]."""
    by_head = g.op.Reshape(x, g.ints(-1, size))
    return g.op.Reshape(norm.emit(g, by_head), g.op.Shape(x))


def _batched(g: Graph, x: ir.Value) -> ir.Value:
    """[m, width] to [1, m, width]."""
    return g.op.Unsqueeze(x, g.ints(0))


def _unbatched(g: Graph, x: ir.Value, heads: Heads) -> ir.Value:
    """[1, m, …] to [m, count · size]."""
    return g.op.Reshape(x, g.ints(-1, heads.count * heads.size))


def _by_head(g: Graph, x: ir.Value, count: int, heads: Heads) -> ir.Value:
    """[m, count · size] to [1, count, m, size]."""
    return g.op.Transpose(g.op.Reshape(x, g.ints(1, -1, count, heads.size)), perm=[0, 2, 1, 3])


def cross_outputs(g: Graph, heads: Heads, layer: int, parts: Sequence[ir.Value]) -> None:
    """Emits the outputs of an encoder that are a layer's cross-attention keys and values.

    Args:
        parts: the two, [source, count · size].
    """
    for name, rows in zip(graph_io.cross_names(layer), parts, strict=True):
        g.output(name, _by_head(g, rows, heads.count, heads), np.float32, _source_shape(heads))


def _cross_inputs(g: Graph, heads: Heads, layer: int) -> list[ir.Value]:
    return [g.input(name, np.float32, _source_shape(heads)) for name in graph_io.cross_names(layer)]


def _source_shape(heads: Heads) -> tuple[int | str, ...]:
    """Shape of the keys and values of cross-attention."""
    return (1, heads.count, "source", heads.size)


def _cache_shape(heads: Heads, width: int) -> tuple[int | str, ...]:
    return (1, heads.kv_count, "capacity", width)
