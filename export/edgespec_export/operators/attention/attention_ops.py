"""Attention without a cache, as ONNX functions: of an encoder's rows, and to an encoder.

Queries and results are [m, num_heads · size], keys and values [m, kv_num_heads · size]. `sources`,
int64 [described, 2], says which part of the source the last rows see (`graph_io.SOURCES`). ONNX
Runtime's operators do not support it: a body fails where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.attention.spare_row import batched, unbatched, with_spare_row

__all__ = ["ENCODER_ATTENTION", "SOURCE_ATTENTION"]


def _source_attention(
    f: Body, q: ir.Value, key: ir.Value, value: ir.Value, sources: ir.Value
) -> Sequence[ir.Value]:
    """Each query attends to all keys and values [1, num_heads, source, size]."""
    none = f.op.Reshape(sources, f.ints(0), allowzero=1)  # fails if rows see parts
    (out,) = f.contrib(
        "MultiHeadAttention",
        [with_spare_row(f, batched(f, q)), key, value],
        outputs=1,
        num_heads=f.given("num_heads"),
        scale=f.given("scale"),
    )
    all_but_last = f.op.Concat(f.ints(-1), none, axis=0)
    return [unbatched(f, f.op.Slice(out, f.ints(0), all_but_last, f.ints(1)))]


def _encoder_attention(
    f: Body, q: ir.Value, k: ir.Value, v: ir.Value, bias: ir.Value
) -> Sequence[ir.Value]:
    """Every row attends to every other; a bias [1, num_heads, m, m] is added to the scores."""
    no_biases = [None, None]  # of the projections, of the keys' padding
    (out,) = f.contrib(
        "MultiHeadAttention",
        [*(batched(f, x) for x in (q, k, v)), *no_biases, bias],
        outputs=1,
        num_heads=f.given("num_heads"),
        scale=f.given("scale"),
    )
    return [unbatched(f, out)]


ENCODER_ATTENTION = Function("EncoderAttention", _encoder_attention)
SOURCE_ATTENTION = Function("SourceRowAttention", _source_attention)
