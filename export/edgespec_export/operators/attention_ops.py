"""Attention by ONNX Runtime's fused operators, as ONNX functions.

Queries and results are [m, num_heads · size], keys and values [m, kv_num_heads · size]. Past and
present are a layer's cache buffers; `last` is int32 [1], the last position of the call, and `total`
int32, the number of positions up to then; `layouts` int64 [described, 3]: where the last rows are,
`sources` int64 [described, 2]: which part of the source they see (`graph_io.LAYOUTS`, `SOURCES`).
ONNX Runtime's operators support neither: a body fails where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = [
    "BIASED_ATTENTION",
    "ENCODER_ATTENTION",
    "NORMED_ROTARY_ATTENTION",
    "NORMED_WINDOWED_ATTENTION",
    "ROTARY_ATTENTION",
    "SOURCE_ATTENTION",
    "WINDOWED_ATTENTION",
    "normed_heads",
    "window_bias",
]


def _rotary_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
) -> Sequence[ir.Value]:
    """Causal, with rotary positions on queries and keys. Cosines and sines are [1, m, size / 2];
    number i of a head forms a pair with i + size / 2."""
    *cache, layouts, cos, sin = rest
    rows = _rotated(f, (q, k, v), cos, sin)
    return _cached(f, rows, *_of_one_line(f, cache, layouts))


def _windowed_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
) -> Sequence[ir.Value]:
    """The same; a query sees the last `window` positions up to its own."""
    *cache, layouts, cos, sin = rest
    rows = _rotated(f, (q, k, v), cos, sin)
    shape = f.op.Concat(f.ints(1), f.count("num_heads"), f.ints(1, 1), axis=0)
    bias = f.op.Expand(window_bias(f, q, cache[-1]), shape)
    return _cached(f, rows, *_of_one_line(f, cache, layouts), bias)


def _normed_rotary_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
) -> Sequence[ir.Value]:
    """Rotary; heads of queries and keys are normalised first, by weights [size]."""
    *others, q_norm, k_norm = rest
    q, k = normed_heads(f, q, q_norm), normed_heads(f, k, k_norm)
    return _rotary_attention(f, q, k, v, *others)


def _normed_windowed_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
) -> Sequence[ir.Value]:
    """Windowed, with the same norms."""
    *others, q_norm, k_norm = rest
    q, k = normed_heads(f, q, q_norm), normed_heads(f, k, k_norm)
    return _windowed_attention(f, q, k, v, *others)


def normed_heads(f: Body, x: ir.Value, norm: ir.Value) -> ir.Value:
    """The norm of each head of [m, heads · size], by its weights [size]."""
    by_head = f.op.Reshape(x, f.op.Concat(f.ints(-1), f.op.Shape(norm), axis=0))
    epsilon = f.given("head_epsilon", at="epsilon")
    y = f.op.RMSNormalization(by_head, norm, axis=-1, epsilon=epsilon)
    return f.op.Reshape(y, f.op.Shape(x))


def window_bias(f: Body, q: ir.Value, total: ir.Value) -> ir.Value:
    """[m, total]: 0 for the keys in the window of each of the queries [m, …] or after it, elsewhere
    a number that softmax makes 0.

    `total` is a scalar.
    """
    zero, one = (f.constant(number, np.int64) for number in (0, 1))
    end = f.op.Cast(total, to=ir.DataType.INT64)
    rows = f.op.Reshape(f.op.Shape(q, end=1), f.constant([], np.int64))
    queries = f.op.Unsqueeze(f.op.Range(f.op.Sub(end, rows), end, one), f.ints(1))
    last_hidden = f.op.Sub(queries, f.count("window"))
    in_window = f.op.Greater(f.op.Range(zero, end, one), last_hidden)
    return f.op.Where(in_window, f.constant(0, np.float32), f.constant(-1e30, np.float32))


def _rotated(f: Body, rows: Sequence[ir.Value], cos: ir.Value, sin: ir.Value) -> Sequence[ir.Value]:
    """Queries, keys and values [m, width] as [1, m, width], the first two rotated."""
    q, k, v = (_batched(f, x) for x in rows)
    q = f.op.RotaryEmbedding(q, cos, sin, num_heads=f.given("num_heads"))
    k = f.op.RotaryEmbedding(k, cos, sin, num_heads=f.given("kv_num_heads", at="num_heads"))
    return [q, k, v]


def _biased_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, *rest: ir.Value
) -> Sequence[ir.Value]:
    """Causal; a bias [1, num_heads, m, total] is added to the scores."""
    *cache, layouts, bias = rest
    rows = [_batched(f, x) for x in (q, k, v)]
    return _cached(f, rows, *_of_one_line(f, cache, layouts), bias)


def _of_one_line(
    f: Body, cache: Sequence[ir.Value], layouts: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Past key and value, last, total. Makes the call fail if rows have layouts."""
    past_key, past_value, last, total = cache
    none = f.op.Cast(f.op.Reshape(layouts, f.ints(0), allowzero=1), to=ir.DataType.INT32)
    return past_key, past_value, f.op.Concat(last, none, axis=0), total


def _cached(
    f: Body,
    rows: Sequence[ir.Value],
    past_key: ir.Value,
    past_value: ir.Value,
    last: ir.Value,
    total: ir.Value,
    bias: ir.Value | None = None,
) -> Sequence[ir.Value]:
    """Attention of the rows q, k, v [1, m, width].

    The keys and values of the spare row fill one more position of the cache, which the next call
    overwrites.
    """
    one = f.constant(1, np.int32)
    with_spare = [_with_spare_row(f, x) for x in rows]
    cache = [past_key, past_value, f.op.Add(last, one), f.op.Add(total, one)]
    no_rotary = [None, None, None]  # tables and position ids
    padded = (
        [] if bias is None else [*no_rotary, f.op.Pad(bias, f.ints(0, 0, 1, 1), None, f.ints(2, 3))]
    )
    out, *present = f.contrib(
        "GroupQueryAttention",
        [*with_spare, *cache, *padded],
        outputs=3,
        num_heads=f.given("num_heads"),
        kv_num_heads=f.given("kv_num_heads"),
        scale=f.given("scale"),
    )
    return [_unbatched(f, _without_spare_row(f, out)), *present]


def _source_attention(
    f: Body, q: ir.Value, key: ir.Value, value: ir.Value, sources: ir.Value
) -> Sequence[ir.Value]:
    """Each query attends to all keys and values [1, num_heads, source, size]."""
    none = f.op.Reshape(sources, f.ints(0), allowzero=1)  # fails if rows see parts
    (out,) = f.contrib(
        "MultiHeadAttention",
        [_with_spare_row(f, _batched(f, q)), key, value],
        outputs=1,
        num_heads=f.given("num_heads"),
        scale=f.given("scale"),
    )
    all_but_last = f.op.Concat(f.ints(-1), none, axis=0)
    return [_unbatched(f, f.op.Slice(out, f.ints(0), all_but_last, f.ints(1)))]


def _encoder_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, bias: ir.Value
) -> Sequence[ir.Value]:
    """Every row attends to every other; a bias [1, num_heads, m, m] is added to the scores."""
    no_biases = [None, None]  # of the projections, of the keys' padding
    (out,) = f.contrib(
        "MultiHeadAttention",
        [*(_batched(f, x) for x in (q, k, v)), *no_biases, bias],
        outputs=1,
        num_heads=f.given("num_heads"),
        scale=f.given("scale"),
    )
    return [_unbatched(f, out)]


def _with_spare_row(f: Body, x: ir.Value) -> ir.Value:
    """[1, m, width] to [1, m + 1, width].

    ONNX Runtime computes a single row by another kernel than several, with other last bits. With
    the spare row there is never a single one (docs/decisions/0030-spare-row.md).
    """
    return f.op.Pad(x, f.ints(0, 1), None, f.ints(1))


def _without_spare_row(f: Body, x: ir.Value) -> ir.Value:
    return f.op.Slice(x, f.ints(0), f.ints(-1), f.ints(1))


def _batched(f: Body, x: ir.Value) -> ir.Value:
    """[m, width] to [1, m, width]."""
    return f.op.Unsqueeze(x, f.ints(0))


def _unbatched(f: Body, x: ir.Value) -> ir.Value:
    return f.op.Squeeze(x, f.ints(0))


ROTARY_ATTENTION = Function("RotaryRowAttention", _rotary_attention)
WINDOWED_ATTENTION = Function("WindowedRowAttention", _windowed_attention)
NORMED_ROTARY_ATTENTION = Function("NormedRotaryRowAttention", _normed_rotary_attention)
NORMED_WINDOWED_ATTENTION = Function("NormedWindowedRowAttention", _normed_windowed_attention)
BIASED_ATTENTION = Function("BiasedRowAttention", _biased_attention)
ENCODER_ATTENTION = Function("EncoderAttention", _encoder_attention)
SOURCE_ATTENTION = Function("SourceRowAttention", _source_attention)
