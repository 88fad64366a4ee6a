"""Attention to keys and values that another layer has written, those of this call's rows too.

Queries are rotated already. `window` is a number of positions, at least 1: all of a model's where
a layer has no window. Otherwise inputs and attributes are those of self-attention
(`self_attention_ops`).
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.operators.attention.cached_attention import window_bias
from edgespec_export.operators.attention.narrow_cache import attend_stored

__all__ = ["KEPT_ATTENTION", "KEPT_SINCE"]

KEPT_SINCE = "0.10"  # the first release of the kernels that has these operators


def _kept_attention(f: Body, q: ir.Value, **given: ir.Value) -> Sequence[ir.Value]:
    return [attend_stored(f, q, given, window_bias(f, q, given["total"]))]


_NAMES = {"fp32": "", "fp16": "Float16Cache", "int8": "Int8Cache"}
# By the format of the cache.
KEPT_ATTENTION = {
    cache: Function(f"Kept{name}RowAttention", _kept_attention) for cache, name in _NAMES.items()
}
