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
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.attention.kv_cache import Buffer
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["ShortConvolution", "cache_layers_for"]


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

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        assert context.positions is not None, "an encoder has no cache"
        before, after, x = inputs
        kept = g.op.Mul(before, x)
        earlier = self._earlier(g, kept, context, context.positions)
        # One product and sum after the other: each row has the same bits in any call.
        total = g.op.Mul(kept, self._tap(g, 0))
        for steps, rows in enumerate(earlier, start=1):
            total = g.op.Add(total, g.op.Mul(rows, self._tap(g, steps)))
        if self.bias is not None:
            total = g.op.Add(total, g.weight(self.bias))
        return g.op.Mul(after, total)

    def _tap(self, g: Graph, steps: int) -> ir.Value:
        """The factors of the position that is this many steps before a row, [width]."""
        index = self.taps - 1 - steps
        return g.stored(
            f"{self.weight}.{steps}",
            lambda: np.ascontiguousarray(g.weights.checkpoint_tensor(self.weight)[:, 0, index]),
        )

    def _earlier(
        self, g: Graph, kept: ir.Value, context: EmitContext, positions: Positions
    ) -> Sequence[ir.Value]:
        """Keeps this call's rows [m, width]; returns those 1, 2, … positions before each, or 0."""
        count = self.taps - 1
        rows = g.op.Unsqueeze(positions.queries, g.ints(1))
        slots = g.op.Sub(rows, g.ints(*range(1, self.taps)))  # [m, count]
        slots = g.op.Reshape(slots, g.ints(-1))
        in_text = g.op.Unsqueeze(g.op.GreaterOrEqual(slots, g.constant(0, np.int64)), g.ints(1))
        slots = g.op.Max(slots, g.constant(0, np.int64))
        buffers = self._buffers()
        parts = [
            context.attention.cache.gathered(g, buffer, rows, positions, slots)
            for buffer, rows in zip(buffers, self._parts(g, kept, len(buffers)), strict=True)
        ]  # each [1, kv_count, m · count, size]
        rows = g.op.Transpose(g.op.Concat(*parts, axis=0), perm=[2, 0, 1, 3])
        rows = g.op.Reshape(rows, g.ints(-1, len(buffers) * self._part))
        rows = g.op.Slice(rows, g.ints(0), g.ints(self.width), g.ints(1))
        rows = g.op.Where(in_text, rows, g.constant(0, np.float32))
        rows = g.op.Reshape(rows, g.ints(-1, count * self.width))
        return g.split(rows, [self.width] * count)

    @property
    def _part(self) -> int:
        """Numbers of a position in one buffer."""
        return self.heads.kv_count * self.heads.size

    def _buffers(self) -> list[Buffer]:
        shape = (1, self.heads.kv_count, "capacity", self.heads.size)
        layers = range(self.layer, self.layer + cache_layers_for(self.width, self.heads))
        return [
            Buffer(past, present, shape)
            for layer in layers
            for past, present in zip(
                graph_io.past_names(layer), graph_io.present_names(layer), strict=True
            )
        ]

    def _parts(self, g: Graph, kept: ir.Value, count: int) -> Sequence[ir.Value]:
        """Rows [m, width] as the rows of `count` buffers, [1, kv_count, m, size] each."""
        missing = count * self._part - self.width
        if missing:
            kept = g.op.Pad(kept, g.ints(0, missing), None, g.ints(1))
        shape = g.ints(-1, count, self.heads.kv_count, self.heads.size)
        rows = g.op.Transpose(g.op.Reshape(kept, shape), perm=[1, 2, 0, 3])
        return [
            g.op.Slice(rows, g.ints(index), g.ints(index + 1), g.ints(0)) for index in range(count)
        ]
