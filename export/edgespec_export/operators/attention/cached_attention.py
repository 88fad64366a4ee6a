"""What self-attention asks of a format of the cache: rows as it takes them, and the attention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body

__all__ = ["Angles", "CachedAttention", "Qkv", "none_of", "rotated", "window_bias"]

Qkv = tuple[ir.Value, ir.Value, ir.Value]  # queries, keys and values


@dataclass(frozen=True)
class Angles:
    """Rotary positions [1, m, size / 2]; number i of a head forms a pair with i + size / 2."""

    cos: ir.Value
    sin: ir.Value


class CachedAttention(ABC):
    """Attention over one format of the cache."""

    @abstractmethod
    def rows(self, f: Body, qkv: Qkv, angles: Angles | None) -> Qkv:
        """Queries, keys and values [m, width] as `attend` takes them, the first two rotated if
        there are angles."""

    @abstractmethod
    def bias_of_heads(self, f: Body, bias: ir.Value) -> ir.Value:
        """A bias [m, keys] that all heads share as `attend` takes it."""

    @abstractmethod
    def attend(
        self, f: Body, qkv: Qkv, given: Mapping[str, ir.Value], bias: ir.Value | None
    ) -> Sequence[ir.Value]:
        """The result [m, num_heads · size], then the present buffers.

        Args:
            qkv: what `rows` made.
            given: the operator's inputs, with the past buffers and the positions of the call.
            bias: added to the scores: [1, num_heads, m, keys], or what `bias_of_heads` made; None
                if there is none.
        """


def rotated(f: Body, x: ir.Value, angles: Angles, heads: str) -> ir.Value:
    """Applies rotary positions to [1, m, heads · size]; `heads` is the attribute that counts
    them."""
    number = f.given(heads, at="num_heads")
    return f.op.RotaryEmbedding(x, angles.cos, angles.sin, num_heads=number)


def none_of(f: Body, layouts: ir.Value) -> ir.Value:
    """int32 [0]. Makes the call fail if rows have layouts, which no body supports."""
    return f.op.Cast(f.op.Reshape(layouts, f.ints(0), allowzero=1), to=ir.DataType.INT32)


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
