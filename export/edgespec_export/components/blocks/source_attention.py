"""Attention of T5Gemma: an encoder's with rotary positions, and a decoder's that is merged with
cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.components.attention.cross_attention import cross_inputs
from edgespec_export.components.attention.heads import (
    HeadNorms,
    Heads,
    Projections,
    apply_rotary,
    normed_heads,
)
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Angles, Rotary
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["MergedAttention", "RotatedEncoderAttention", "Sight"]


@dataclass(frozen=True)
class Sight:
    """How many rows before and after itself a row of an encoder sees."""

    before: int
    after: int


@dataclass(frozen=True)
class RotatedEncoderAttention:
    """Every row attends to those in its sight. The encoding is the rows' positions, int64 [source].

    Attributes:
        norms: of each head of the queries and of the keys; None if there are none.
        sight: None if every row sees every other.
    """

    heads: Heads
    rotary: Rotary
    norms: HeadNorms | None
    sight: Sight | None

    @property
    def widths(self) -> tuple[int, ...]:
        return SelfAttention(0, self.heads).widths

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        heads, norms, rows = self.heads, self.norms, context.encoding
        assert isinstance(rows, ir.Value), "an encoder's rows have positions"
        if norms is not None:
            q = normed_heads(g, q, RmsNorm(norms.q, norms.epsilon), heads.size)
            k = normed_heads(g, k, RmsNorm(norms.k, norms.epsilon), heads.size)
        angles = self.rotary.at(g, rows)
        q = apply_rotary(g, q, heads.count, angles, heads)
        k = apply_rotary(g, k, heads.kv_count, angles, heads)
        bias = None if self.sight is None else _hidden_beyond(g, rows, self.sight)
        return context.attention.full(g, Projections(q, k, v, heads), bias)


@dataclass(frozen=True)
class MergedAttention:
    """One softmax over the text so far and the source (T5Gemma 2).

    The source's keys have no rotary positions. Zhang et al. (2025, arXiv 2512.14856).
    """

    layer: int
    heads: Heads
    norms: HeadNorms
    rotary: Rotary

    @property
    def widths(self) -> tuple[int, ...]:
        return SelfAttention(self.layer, self.heads).widths

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, v = inputs
        assert context.positions is not None, "an encoder has no cache"
        keys, values = cross_inputs(g, self.heads, self.layer)
        rows = Projections(q, k, v, self.heads, self.norms, (keys, values))
        angles: Angles = self.rotary.emit(g, context.positions)
        return context.attention.cached(g, rows, self.layer, context.positions, angles)


def _hidden_beyond(g: Graph, rows: ir.Value, sight: Sight) -> ir.Value:
    """A bias [1, 1, source, source] that hides what is out of sight."""
    ahead = g.op.Sub(rows, g.op.Unsqueeze(rows, g.ints(1)))  # key - query
    first, last = (g.constant(n, np.int64) for n in (-sight.before, sight.after))
    seen = g.op.And(g.op.GreaterOrEqual(ahead, first), g.op.LessOrEqual(ahead, last))
    bias = g.op.Where(seen, g.constant(0, np.float32), g.constant(-1e30, np.float32))
    return g.op.Unsqueeze(bias, g.ints(0, 1))
