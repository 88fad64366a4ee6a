"""Attention over a cache in float16 or 8 bits, by standard operators.

Past and present are float16, or int8 with float32 scales [1, kv_heads, capacity, 1]. Only valid
positions are read. A kernel computes with code · scale; a body multiplies scores and weights by the
scales, which is cheaper with standard operators and differs by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body
from edgespec_export.onnx_graph.nodes import Nodes
from edgespec_export.operators.attention.cached_attention import (
    Angles,
    CachedAttention,
    Qkv,
    none_of,
    rotated,
)
from edgespec_export.operators.attention.spare_row import batched, unbatched

__all__ = ["FLOAT16_CACHE", "INT8_CACHE", "attend_stored", "rounded_to_int8"]


def rounded_to_int8(n: Nodes, rows: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Rows […, size] as int8, and the scales […, 1] that map their largest numbers to ±127."""
    largest = n.op.ReduceMax(n.op.Abs(rows), n.ints(-1), keepdims=1)
    scale = n.op.Mul(largest, n.constant(1 / 127, np.float32))
    scale = n.op.Max(scale, n.constant(1e-30, np.float32))  # a row may be all zeros
    # Division first: QuantizeLinear with a scale for each row needs to know the row's size.
    codes = n.op.QuantizeLinear(
        n.op.Div(rows, scale), n.constant(1, np.float32), n.constant(0, np.int8)
    )
    return codes, scale


@dataclass(frozen=True)
class _Rows:
    """Rows [1, kv_heads, m, size] as a cache stores them, in each of its buffers.

    Attributes:
        stored: numbers, and scales [1, kv_heads, m, 1] if there are any.
    """

    stored: tuple[ir.Value, ...]

    def wide(self, f: Body) -> ir.Value:
        return f.op.Cast(self.stored[0], to=ir.DataType.FLOAT)

    def scaled(self, f: Body, scores: ir.Value) -> ir.Value:
        """Scores or weights [1, kv_heads, queries, m], times the scales of the rows."""
        for scale in self.stored[1:]:
            scores = f.op.Mul(scores, f.op.Transpose(scale, perm=[0, 1, 3, 2]))
        return scores


Narrow = Callable[[Body, ir.Value], Sequence[ir.Value]]


def _float16(f: Body, rows: ir.Value) -> Sequence[ir.Value]:
    return [f.op.Cast(rows, to=ir.DataType.FLOAT16)]


@dataclass(frozen=True)
class NarrowCache(CachedAttention):
    """Rows are [m, width].

    Attributes:
        narrow: float rows to what each buffer of keys, or of values, stores.
    """

    narrow: Narrow

    def rows(self, f: Body, qkv: Qkv, angles: Angles | None) -> Qkv:
        q, k, v = qkv
        if angles is not None:
            q = unbatched(f, rotated(f, batched(f, q), angles, "num_heads"))
            k = unbatched(f, rotated(f, batched(f, k), angles, "kv_num_heads"))
        return q, k, v

    def bias_of_heads(self, f: Body, bias: ir.Value) -> ir.Value:
        return bias

    def attend(
        self, f: Body, qkv: Qkv, given: Mapping[str, ir.Value], bias: ir.Value | None
    ) -> Sequence[ir.Value]:
        q, k, v = qkv
        none = none_of(f, given["layouts"])
        last = f.op.Cast(f.op.Concat(given["last"], none, axis=0), to=ir.DataType.INT64)
        total = f.op.Add(last, f.ints(1))
        first = f.op.Sub(total, f.op.Shape(q, end=1))
        kv_heads = f.op.Shape(given["past_key"], start=1, end=2)
        size = f.op.Shape(given["past_key"], start=3, end=4)
        buffers, valid = [], []
        for kind, new in (("key", k), ("value", v)):
            past = [given[name] for name in _buffer_names(kind) if name in given]
            narrow = self.narrow(f, _by_head(f, new, kv_heads, size))
            pairs = zip(past, narrow, strict=True)
            buffers.append([f.op.TensorScatter(old, x, first, axis=2) for old, x in pairs])
            read = (f.op.Slice(x, f.ints(0), total, f.ints(2)) for x in buffers[-1])
            valid.append(_Rows(tuple(read)))
        mask = _causal_mask(f, first, total)
        mask = mask if bias is None else f.op.Add(bias, mask)
        y = _attended(f, _by_head(f, q, f.ints(-1), size), valid, mask, kv_heads)
        y = f.op.Reshape(f.op.Transpose(y, perm=[0, 2, 1, 3]), f.op.Shape(q))
        return [y, *(x for pair in zip(*buffers, strict=True) for x in pair)]


def attend_stored(f: Body, q: ir.Value, given: Mapping[str, ir.Value], bias: ir.Value) -> ir.Value:
    """Rows [m, num_heads · size] attend to what the buffers hold, in any format, and write nothing.

    Args:
        given: the operator's inputs.
        bias: [m, keys], added to the scores.
    """
    last = f.op.Cast(
        f.op.Concat(given["last"], none_of(f, given["layouts"]), axis=0), to=ir.DataType.INT64
    )
    total = f.op.Add(last, f.ints(1))
    valid = []
    for kind in ("key", "value"):
        stored = [given[name] for name in _buffer_names(kind) if name in given]
        valid.append(_Rows(tuple(f.op.Slice(x, f.ints(0), total, f.ints(2)) for x in stored)))
    kv_heads, size = (f.op.Shape(given["past_key"], start=i, end=i + 1) for i in (1, 3))
    mask = f.op.Add(bias, _causal_mask(f, f.op.Sub(total, f.op.Shape(q, end=1)), total))
    y = _attended(f, _by_head(f, q, f.ints(-1), size), valid, mask, kv_heads)
    return f.op.Reshape(f.op.Transpose(y, perm=[0, 2, 1, 3]), f.op.Shape(q))


def _buffer_names(kind: str) -> tuple[str, str]:
    """Inputs with the numbers of keys or values and, if the cache has any, with their scales."""
    return f"past_{kind}", f"past_{kind}_scale"


def _attended(
    f: Body, q: ir.Value, cache: Sequence[_Rows], bias: ir.Value, kv_heads: ir.Value
) -> ir.Value:
    """softmax(q · keysᵀ · scale + bias) · values; q and the result [1, num_heads, m, size].

    The query heads that share a key head are rows of one matrix.
    """
    keys, values = cache
    by_head = f.op.Shape(q)
    grouped = f.op.Concat(f.ints(1), kv_heads, f.ints(-1), axis=0)
    queries = f.op.Concat(grouped, f.op.Shape(q, start=3), axis=0)
    scores = f.op.MatMul(f.op.Reshape(q, queries), f.op.Transpose(keys.wide(f), perm=[0, 1, 3, 2]))
    scores = keys.scaled(f, f.op.Mul(scores, f.number("scale")))
    total = f.op.Shape(scores, start=3)
    heads = f.op.Concat(f.op.Shape(q, end=3), total, axis=0)
    weights = f.op.Softmax(f.op.Add(f.op.Reshape(scores, heads), bias), axis=-1)
    weights = f.op.Reshape(weights, f.op.Concat(grouped, total, axis=0))
    return f.op.Reshape(f.op.MatMul(values.scaled(f, weights), values.wide(f)), by_head)


def _causal_mask(f: Body, first: ir.Value, total: ir.Value) -> ir.Value:
    """[m, total]: 0 for the keys up to a query, elsewhere a number that softmax makes 0."""
    one, scalar = f.constant(1, np.int64), f.constant([], np.int64)
    start, end = (f.op.Reshape(position, scalar) for position in (first, total))
    keys = f.op.Range(f.constant(0, np.int64), end, one)
    queries = f.op.Unsqueeze(f.op.Range(start, end, one), f.ints(1))
    zero, unseen = f.constant(0, np.float32), f.constant(-1e30, np.float32)
    return f.op.Where(f.op.LessOrEqual(keys, queries), zero, unseen)


def _by_head(f: Body, x: ir.Value, count: ir.Value, size: ir.Value) -> ir.Value:
    """[m, count · size] to [1, count, m, size]."""
    shape = f.op.Concat(f.ints(1), f.op.Shape(x, end=1), count, size, axis=0)
    return f.op.Transpose(f.op.Reshape(x, shape), perm=[0, 2, 1, 3])


FLOAT16_CACHE = NarrowCache(_float16)
INT8_CACHE = NarrowCache(rounded_to_int8)
