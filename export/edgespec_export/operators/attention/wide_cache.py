"""Attention over a float32 cache, by ONNX Runtime's `GroupQueryAttention`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body
from edgespec_export.operators.attention.cached_attention import (
    Angles,
    CachedAttention,
    Qkv,
    none_of,
    rotated,
)
from edgespec_export.operators.attention.spare_row import (
    batched,
    unbatched,
    with_spare_row,
    without_spare_row,
)

__all__ = ["WideCache"]


class WideCache(CachedAttention):
    """Rows are [1, m, width]. The keys and values of the spare row fill one more position of the
    cache, which the next call overwrites."""

    def rows(self, f: Body, qkv: Qkv, angles: Angles | None) -> Qkv:
        q, k, v = (batched(f, x) for x in qkv)
        if angles is not None:
            q = rotated(f, q, angles, "num_heads")
            k = rotated(f, k, angles, "kv_num_heads")
        return q, k, v

    def bias_of_heads(self, f: Body, bias: ir.Value) -> ir.Value:
        """[1, num_heads, m, keys]."""
        shape = f.op.Concat(f.ints(1), f.count("num_heads"), f.ints(1, 1), axis=0)
        return f.op.Expand(bias, shape)

    def attend(
        self, f: Body, qkv: Qkv, given: Mapping[str, ir.Value], bias: ir.Value | None
    ) -> Sequence[ir.Value]:
        last = f.op.Concat(given["last"], none_of(f, given["layouts"]), axis=0)
        one = f.constant(1, np.int32)
        with_spare = [with_spare_row(f, x) for x in qkv]
        positions = [f.op.Add(last, one), f.op.Add(given["total"], one)]
        out, *present = f.contrib(
            "GroupQueryAttention",
            [*with_spare, given["past_key"], given["past_value"], *positions, *_padded(f, bias)],
            outputs=3,
            num_heads=f.given("num_heads"),
            kv_num_heads=f.given("kv_num_heads"),
            scale=f.given("scale"),
        )
        return [unbatched(f, without_spare_row(f, out)), *present]


def _padded(f: Body, bias: ir.Value | None) -> list[ir.Value | None]:
    """The last inputs of `GroupQueryAttention`: none, or a bias [1, num_heads, m + 1, keys + 1]."""
    if bias is None:
        return []
    no_rotary = [None, None, None]  # tables and position ids
    return [*no_rotary, f.op.Pad(bias, f.ints(0, 0, 1, 1), None, f.ints(2, 3))]
