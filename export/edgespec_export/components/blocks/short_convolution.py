"""A gated convolution over the last few positions, in the place of attention (LFM2).

    before, after, x = inputs          y = after · Σᵢ tapᵢ · (before · x)[position − i]

What a convolution reads of earlier positions is kept for each position, as keys and values are, so
that a rewind is a smaller `past_length` for it, too: the last state alone would be that of dropped
tokens (docs/decisions/0034-convolutions.md). The numbers of a position fill the keys and values of
as many layers of the cache as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import cache_shape
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.attention.kv_cache import Buffer
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.convolution_ops import SHORT_CONVOLUTION, convolved

__all__ = ["ShortConvolution", "cache_layers_for"]

KERNELS = "0.10"  # the first release that has these operators


def cache_layers_for(width: int, heads: Heads) -> int:
    """Layers of the cache whose keys and values hold `width` numbers of each position."""
    return -(-width // (2 * heads.kv_count * heads.size))


@dataclass(frozen=True)
class ShortConvolution:
    """The mixer of a block, from three inputs [m, width] in this order: before, after, x.

    Attributes:
        layer: the first of its layers of the cache.
        heads: of the model's attention, which give the cache its shape.
        width: of the residual stream.
        taps: how many positions it reads, its own included; at least 2.
        weight: name of its factors in the checkpoint, [width, 1, taps]; the last is of the position
            itself.
        bias: name of what is added to the sum, [width]; None if nothing is.
    """

    layer: int
    heads: Heads
    width: int
    taps: int
    weight: str
    bias: str | None

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.width, self.width, self.width)

    @property
    def has_operators(self) -> bool:
        """Whether there are operators with kernels for it."""
        layers = cache_layers_for(self.width, self.heads)
        return self.bias is None and (layers, "fp32") in SHORT_CONVOLUTION

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        assert context.positions is not None, "an encoder has no cache"
        cache = context.attention.operators_of
        if self.has_operators and cache is not None:
            return self._by_operator(g, inputs, context.positions, cache)
        buffers = [Buffer(b.past, b.present, self._shape(b)) for b in self._buffers("fp32")]
        positions, rows_of = context.positions, context.attention.cache.gathered
        return convolved(
            g,
            inputs,
            [
                g.op.Gather(self._factors(g), g.constant(tap, np.int64), axis=0)
                for tap in range(self.taps)
            ],
            positions.queries,
            part=g.ints(self.heads.kv_count, self.heads.size),
            buffers=len(buffers),
            gathered=lambda number, rows, slots: rows_of(
                g, buffers[number], rows, positions, slots
            ),
            bias=None if self.bias is None else g.weight(self.bias),
        )

    def _by_operator(
        self, g: Graph, inputs: Sequence[ir.Value], positions: Positions, cache: str
    ) -> ir.Value:
        """Keeps rows where their layouts say, if there are kernels."""
        g.metadata[graph_io.LAYOUTS_SINCE] = KERNELS
        buffers = self._buffers(cache)
        past = [g.input(b.past, b.dtype, self._shape(b)) for b in buffers]
        last = g.op.Cast(g.op.Sub(positions.total, g.ints(1)), to=ir.DataType.INT32)  # [1]
        total = g.op.Cast(positions.end, to=ir.DataType.INT32)  # scalar
        function = SHORT_CONVOLUTION[cache_layers_for(self.width, self.heads), cache]
        given = [*inputs, *past, last, total, positions.layouts, self._factors(g)]
        y, *present = g.call(function, *given, taps=self.taps)
        for buffer, value in zip(buffers, present, strict=True):
            g.output(buffer.present, value, buffer.dtype, self._shape(buffer))
        return y

    def _factors(self, g: Graph) -> ir.Value:
        """[taps, width]; the first row is that of the position itself."""
        return g.stored(f"{self.weight}.taps", lambda: self._taps_of(g))

    def _taps_of(self, g: Graph) -> npt.NDArray[np.float32]:
        """The checkpoint's factors, which have the position itself last."""
        return np.ascontiguousarray(g.weights.checkpoint_tensor(self.weight)[:, 0].T[::-1])

    def _buffers(self, cache: str) -> list[graph_io.Buffer]:
        """The numbers of all its layers of the cache, then their scales, if there are any."""
        layers = range(self.layer, self.layer + cache_layers_for(self.width, self.heads))
        shape = graph_io.LayerShape(self.heads.kv_count, self.heads.size)
        pairs = [graph_io.layer_buffers(layer, shape, cache) for layer in layers]
        buffers = [buffer for pair in pairs for buffer in pair]
        scales = [buffer for buffer in buffers if buffer.width == 1]
        return [buffer for buffer in buffers if buffer.width > 1] + scales

    def _shape(self, buffer: graph_io.Buffer) -> tuple[int | str, ...]:
        return cache_shape(self.heads, buffer.width)
