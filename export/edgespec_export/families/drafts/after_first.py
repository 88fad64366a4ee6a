"""Attention of a head that has no row for the first position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from edgespec_export.components.attention.heads import (
    HeadNorms,
    Heads,
    Projections,
    apply_rotary,
    normed_heads,
)
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Rotary
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["AfterTheFirst"]


@dataclass(frozen=True)
class AfterTheFirst:
    """Causal self-attention that sees no first row, from queries, keys and values.

    The context's encoding hides it, and what is before the window of the heads
    (`first_key_bias`), so queries and keys are rotated here.

    Attributes:
        layer: of the cache.
    """

    layer: int
    heads: Heads
    norms: HeadNorms | None
    rotary: Rotary

    @property
    def widths(self) -> tuple[int, ...]:
        count, kv_count, size = self.heads.count, self.heads.kv_count, self.heads.size
        return (count * size, kv_count * size, kv_count * size)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        assert context.positions is not None, "a head has positions"
        assert context.encoding is not None, "a head hides its first key"
        heads, angles = self.heads, self.rotary.emit(g, context.positions)
        if self.norms is not None:
            q = normed_heads(g, q, RmsNorm(self.norms.q, self.norms.epsilon), heads.size)
            k = normed_heads(g, k, RmsNorm(self.norms.k, self.norms.epsilon), heads.size)
        q = apply_rotary(g, q, heads.count, angles, heads)
        k = apply_rotary(g, k, heads.kv_count, angles, heads)
        rows = Projections(q, k, v, replace(heads, window=None))
        return context.attention.cached(g, rows, self.layer, context.positions, context.encoding)
