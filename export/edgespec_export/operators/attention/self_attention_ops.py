"""Self-attention over a cache, as ONNX functions.

Queries and results are [m, num_heads · size], keys and values [m, kv_num_heads · size]. Past and
present are a layer's cache buffers; `last` is int32 [1], the last position of the call, and `total`
int32, the number of positions up to then; `layouts` int64 [described, 3]: where the last rows are
(`graph_io.LAYOUTS`). A body supports no layouts: it fails where there are any.

There is one body. It reads from its operator's inputs and attributes what happens to queries and
keys (`operator_parts.ENCODINGS`); the format of the cache says how they are attended to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.onnx_graph.operator_parts import ENCODINGS
from edgespec_export.operators.attention.cached_attention import (
    Angles,
    CachedAttention,
    window_bias,
)
from edgespec_export.operators.attention.narrow_cache import FLOAT16_CACHE, INT8_CACHE
from edgespec_export.operators.attention.wide_cache import WideCache

__all__ = ["SELF_ATTENTION"]


def _self_attention(cache: CachedAttention) -> Callable[..., Sequence[ir.Value]]:
    """Causal self-attention over a cache of this format."""

    def emit(
        f: Body, q: ir.Value, k: ir.Value, v: ir.Value, **given: ir.Value
    ) -> Sequence[ir.Value]:
        if "q_norm" in given:
            q = _normed_heads(f, q, given["q_norm"])
            k = _normed_heads(f, k, given["k_norm"])
        angles = Angles(given["cos"], given["sin"]) if "cos" in given else None
        rows = cache.rows(f, (q, k, v), angles)
        bias = given.get("bias")
        if f.has("window"):
            bias = cache.bias_of_heads(f, window_bias(f, q, given["total"]))
        return cache.attend(f, rows, given, bias)

    return emit


def _normed_heads(f: Body, x: ir.Value, norm: ir.Value) -> ir.Value:
    """The norm of each head of [m, heads · size], by its weights [size]."""
    by_head = f.op.Reshape(x, f.op.Concat(f.ints(-1), f.op.Shape(norm), axis=0))
    epsilon = f.given("head_epsilon", at="epsilon")
    y = f.op.RMSNormalization(by_head, norm, axis=-1, epsilon=epsilon)
    return f.op.Reshape(y, f.op.Shape(x))


# By the format of the cache: what operators' names say of it, and how it is attended to.
_CACHES: dict[str, tuple[str, CachedAttention]] = {
    "fp32": ("", WideCache()),
    "fp16": ("Float16Cache", FLOAT16_CACHE),
    "int8": ("Int8Cache", INT8_CACHE),
}

# By what happens to queries and keys, and by the format of the cache.
SELF_ATTENTION = {
    encoding: {
        cache: Function(f"{encoding}{name}RowAttention", _self_attention(attention))
        for cache, (name, attention) in _CACHES.items()
    }
    for encoding in ENCODINGS
}
