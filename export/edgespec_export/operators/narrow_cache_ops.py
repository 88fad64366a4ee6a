"""Self-attention over a cache in float16 or 8 bits, as ONNX functions of standard operators.

`SELF_ATTENTION` lists these functions and those for a float32 cache.

Inputs and results are those of attention over a float32 cache (`attention_ops`), but for past and
present: float16, or int8 with float32 scales [1, kv_heads, capacity, 1]. Only valid positions are
read. A kernel computes with code · scale; a body multiplies scores and weights by the scales, which
is cheaper with standard operators and differs by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.onnx_graph.nodes import Nodes
from edgespec_export.operators.attention_ops import (
    BIASED_ATTENTION,
    NORMED_ROTARY_ATTENTION,
    NORMED_WINDOWED_ATTENTION,
    ROTARY_ATTENTION,
    WINDOWED_ATTENTION,
    normed_heads,
    window_bias,
)

__all__ = ["SELF_ATTENTION", "rounded_to_int8"]


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


Narrow = Callable[[Body, ir.Value], Sequence[ir.Value]]  # float rows to what buffers store


def _float16(f: Body, rows: ir.Value) -> Sequence[ir.Value]:
    return [f.op.Cast(rows, to=ir.DataType.FLOAT16)]


@dataclass(frozen=True)
class _Attention:
    """The bodies for a format of the cache; its buffers are keys, values and then their scales."""

    narrow: Narrow

    def rotary(
        self, f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
    ) -> Sequence[ir.Value]:
        """With rotary positions on queries and keys."""
        *cached, cos, sin = rest
        return self._attend(f, _rotated_rows(f, (q, k, v), cos, sin), cached, None)

    def windowed(
        self, f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
    ) -> Sequence[ir.Value]:
        """The same; a query sees the last `window` positions up to its own."""
        *cached, cos, sin = rest
        *_, total, _ = cached
        bias = window_bias(f, q, total)
        return self._attend(f, _rotated_rows(f, (q, k, v), cos, sin), cached, bias)

    def normed_rotary(
        self, f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
    ) -> Sequence[ir.Value]:
        """Rotary; heads of queries and keys are normalised first."""
        *others, q_norm, k_norm = rest
        return self.rotary(f, normed_heads(f, q, q_norm), normed_heads(f, k, k_norm), v, *others)

    def normed_windowed(
        self, f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
    ) -> Sequence[ir.Value]:
        """Windowed, with the same norms."""
        *others, q_norm, k_norm = rest
        return self.windowed(f, normed_heads(f, q, q_norm), normed_heads(f, k, k_norm), v, *others)

    def biased(
        self, f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
    ) -> Sequence[ir.Value]:
        """With a bias that is added to the scores."""
        *cached, bias = rest
        return self._attend(f, (q, k, v), cached, bias)

    def _attend(
        self,
        f: Body,
        rows: tuple[ir.Value, ir.Value, ir.Value],
        cached: Sequence[ir.Value],
        bias: ir.Value | None,
    ) -> Sequence[ir.Value]:
        """The result [m, num_heads · size], then the present buffers."""
        *past, last, _, layouts = cached
        # Layouts that are not empty are an error.
        none = f.op.Cast(f.op.Reshape(layouts, f.ints(0), allowzero=1), to=ir.DataType.INT32)
        last = f.op.Cast(f.op.Concat(last, none, axis=0), to=ir.DataType.INT64)
        total = f.op.Add(last, f.ints(1))
        q, k, v = rows
        first = f.op.Sub(total, f.op.Shape(q, end=1))
        kv_heads = f.op.Shape(past[0], start=1, end=2)
        size = f.op.Shape(past[0], start=3, end=4)
        buffers, valid = [], []
        for new, old in zip((k, v), (past[::2], past[1::2]), strict=True):
            narrow = self.narrow(f, _by_head(f, new, kv_heads, size))
            pairs = zip(old, narrow, strict=True)
            buffers.append([f.op.TensorScatter(b, x, first, axis=2) for b, x in pairs])
            read = (f.op.Slice(x, f.ints(0), total, f.ints(2)) for x in buffers[-1])
            valid.append(_Rows(tuple(read)))
        mask = _causal_mask(f, first, total)
        mask = mask if bias is None else f.op.Add(bias, mask)
        y = _attended(f, _by_head(f, q, f.ints(-1), size), valid, mask, kv_heads)
        y = f.op.Reshape(f.op.Transpose(y, perm=[0, 2, 1, 3]), f.op.Shape(q))
        return [y, *(x for pair in zip(*buffers, strict=True) for x in pair)]


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


def _rotated_rows(
    f: Body, rows: Sequence[ir.Value], cos: ir.Value, sin: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Queries, keys and values, the first two rotated."""
    q, k, v = rows
    return _rotated(f, q, cos, sin, "num_heads"), _rotated(f, k, cos, sin, "kv_num_heads"), v


def _rotated(f: Body, x: ir.Value, cos: ir.Value, sin: ir.Value, heads: str) -> ir.Value:
    """Applies rotary positions to [m, heads · size]."""
    rows = f.op.Unsqueeze(x, f.ints(0))
    rows = f.op.RotaryEmbedding(rows, cos, sin, num_heads=f.given(heads, at="num_heads"))
    return f.op.Squeeze(rows, f.ints(0))


def _by_head(f: Body, x: ir.Value, count: ir.Value, size: ir.Value) -> ir.Value:
    """[m, count · size] to [1, count, m, size]."""
    shape = f.op.Concat(f.ints(1), f.op.Shape(x, end=1), count, size, axis=0)
    return f.op.Transpose(f.op.Reshape(x, shape), perm=[0, 2, 1, 3])


_FORMATS = {
    "fp16": ("Float16Cache", _Attention(_float16)),
    "int8": ("Int8Cache", _Attention(rounded_to_int8)),
}


def _by_cache(
    start: str, wide: Function, body: Callable[[_Attention], Callable[..., Sequence[ir.Value]]]
) -> dict[str, Function]:
    narrow = {
        cache: Function(f"{start}{name}RowAttention", body(attention))
        for cache, (name, attention) in _FORMATS.items()
    }
    return {"fp32": wide, **narrow}


# By what happens to queries and keys, and by the format of the cache.
SELF_ATTENTION = {
    "Rotary": _by_cache("Rotary", ROTARY_ATTENTION, lambda a: a.rotary),
    "Biased": _by_cache("Biased", BIASED_ATTENTION, lambda a: a.biased),
    "Windowed": _by_cache("Windowed", WINDOWED_ATTENTION, lambda a: a.windowed),
    "NormedRotary": _by_cache("NormedRotary", NORMED_ROTARY_ATTENTION, lambda a: a.normed_rotary),
    "NormedWindowed": _by_cache(
        "NormedWindowed", NORMED_WINDOWED_ATTENTION, lambda a: a.normed_windowed
    ),
}
