"""Self-attention whose keys and values several layers share, and values with a norm (Gemma 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.components.attention.heads import Heads, apply_rotary, normed_heads
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.norms.norm import Norm
from edgespec_export.components.positions import Angles
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["KeptAttention", "NormedValues"]


@dataclass(frozen=True)
class NormedValues:
    """Causal self-attention with a norm of each head of its values.

    Attributes:
        attention: from queries, keys and normalised values.
        v_norm: of each head of the values.
        keys_are_values: there is no third input: values are the keys as they come in.
    """

    attention: SelfAttention
    v_norm: Norm
    keys_are_values: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        return self.attention.widths[: 2 if self.keys_are_values else 3]

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        q, k, *rest = inputs
        (v,) = rest or [k]
        v = normed_heads(g, v, self.v_norm, self.attention.heads.size)
        return self.attention.emit(g, [q, k, v], context)


@dataclass(frozen=True)
class KeptAttention:
    """Causal self-attention, from queries alone, to what an earlier layer wrote into the cache.

    Attributes:
        layer: of the cache.
        q_norm: of each head of the queries.
    """

    layer: int
    heads: Heads
    q_norm: Norm

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.heads.count * self.heads.size,)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        (q,) = inputs
        assert context.positions is not None, "an encoder has no cache"
        assert isinstance(context.encoding, Angles), "a learned bias rotates nothing"
        q = normed_heads(g, q, self.q_norm, self.heads.size)
        q = apply_rotary(g, q, self.heads.count, context.encoding, self.heads)
        return context.attention.kept(g, q, self.heads, self.layer, context.positions)
