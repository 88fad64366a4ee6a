"""Attention by functions that have kernels (`operators/`)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import Attention, PositionEncoding, cache_shape
from edgespec_export.components.attention.cross_attention import cross_inputs
from edgespec_export.components.attention.heads import Heads, Projections, by_head
from edgespec_export.components.attention.kv_cache import CACHES
from edgespec_export.components.positions import NO_SOURCES, Angles, Positions
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.attention.attention_ops import ENCODER_ATTENTION, SOURCE_ATTENTION
from edgespec_export.operators.attention.kept_attention import KEPT_ATTENTION, KEPT_SINCE
from edgespec_export.operators.attention.self_attention_ops import SELF_ATTENTION

__all__ = ["Fused"]

WHOLE_TEXT = 2**31 - 1  # a window that hides nothing


class Fused(Attention):
    """Functions that have kernels. For a float32 cache, and for attention without one, their bodies
    are `GroupQueryAttention` and `MultiHeadAttention` of ONNX Runtime."""

    supports_layouts = supports_sources = True

    def __init__(self, cache: str = "fp32", *, in_bfloat16: bool = False) -> None:
        self._format = self.operators_of = cache
        self.cache = CACHES[cache]()
        self._arithmetic = {"bfloat16": 1} if in_bfloat16 else {}

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        assert rows.source is None, "no operator merges self-attention with a source's"
        heads = rows.heads
        last, total = _call_positions(g, positions)
        buffers = self._buffers(heads, layer)
        past = [g.input(b.past, b.dtype, cache_shape(heads, b.width)) for b in buffers]
        kind, encoded, attributes = _encoded(g, rows, encoding)
        inputs = [rows.q, rows.k, rows.v, *past, last, total, positions.layouts, *encoded]
        function = SELF_ATTENTION[kind][self._format]
        attributes |= {**_attributes(heads), **self._arithmetic}
        out, *present = g.call(function, *inputs, **attributes)
        for buffer, value in zip(buffers, present, strict=True):
            g.output(buffer.present, value, buffer.dtype, cache_shape(heads, buffer.width))
        return out

    def kept(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        g.metadata[graph_io.LAYOUTS_SINCE] = KEPT_SINCE
        buffers = [g.output_of(buffer.present) for buffer in self._buffers(heads, layer)]
        last, total = _call_positions(g, positions)
        window = heads.window or WHOLE_TEXT
        inputs = [q, *buffers, last, total, positions.layouts]
        function = KEPT_ATTENTION[self._format]
        attributes = {**_attributes(heads), **self._arithmetic}
        (out,) = g.call(function, *inputs, **attributes, window=window)
        return out

    def borrowed(self, g: Graph, heads: Heads, layer: int) -> None:
        for b in self._buffers(heads, layer):
            g.borrow(b.present, g.input(b.past, b.dtype, cache_shape(heads, b.width)))

    def _buffers(self, heads: Heads, layer: int) -> list[graph_io.Buffer]:
        """In the order of the functions' inputs: keys, values, then their scales."""
        shape = graph_io.LayerShape(heads.kv_count, heads.size)
        buffers = graph_io.layer_buffers(layer, shape, self._format)
        each = len(buffers) // 2  # of keys, and of values
        return [buffers[i + kind * each] for i in range(each) for kind in range(2)]

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        keys, values = cross_inputs(g, heads, layer)
        parts = g.constant(NO_SOURCES, np.int64) if positions.sources is None else positions.sources
        (out,) = g.call(SOURCE_ATTENTION, q, keys, values, parts, **_attributes(heads))
        return out

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        heads = rows.heads
        if bias is None:  # the rows are their own source
            keys, values = (by_head(g, x, heads.count, heads) for x in (rows.k, rows.v))
            all_of_it = g.constant(NO_SOURCES, np.int64)
            (out,) = g.call(SOURCE_ATTENTION, rows.q, keys, values, all_of_it, **_attributes(heads))
            return out
        inputs = [rows.q, rows.k, rows.v, bias]
        (out,) = g.call(ENCODER_ATTENTION, *inputs, **_attributes(heads))
        return out


def _call_positions(g: Graph, positions: Positions) -> tuple[ir.Value, ir.Value]:
    """The last position of a call [1], and how many there are up to it, a scalar."""
    last = g.op.Cast(g.op.Sub(positions.total, g.ints(1)), to=ir.DataType.INT32)
    return last, g.op.Cast(positions.end, to=ir.DataType.INT32)


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


def _attributes(heads: Heads) -> dict[str, int | float]:
    """Attributes of the functions of attention."""
    return {"num_heads": heads.count, "kv_num_heads": heads.kv_count, "scale": heads.scale}
