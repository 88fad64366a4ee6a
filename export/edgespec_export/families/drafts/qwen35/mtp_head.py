"""Qwen3.5's head for several tokens (`mtp.*`), a draft that reads its target's last hidden state.

    token ── embed_tokens ── pre_fc_norm_embedding ─┬ side by side ── fc ── layer ── norm ┬ state
    state of the row before ── pre_fc_norm_hidden ──┘                                    │
                                                                                   lm_head ─┘

The state is the target's after its last norm; the row of a drafted token takes the head's own
instead. The layer is one of the target's with attention. Embedding and head are the target's.
Transformers leaves these tensors out; vLLM computes them so (`Qwen3_5MultiTokenPredictor`). No row
sees the first, which has no state before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, EmitContext
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import (
    Positions,
    Rotary,
    decoder_positions,
    first_key_bias,
)
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.after_first import AfterTheFirst
from edgespec_export.families.drafts.eagle3.split_weights import STATE, TOKEN, SplitWeights, half
from edgespec_export.families.family import Family
from edgespec_export.families.qwen35.qwen35 import ATTENTION, Qwen35
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["JOIN", "Qwen35Head"]

JOIN = "mtp.fc.weight"
LAYER = "mtp.layers.0"
NORMS = {TOKEN: "mtp.pre_fc_norm_embedding", STATE: "mtp.pre_fc_norm_hidden"}


@dataclass(frozen=True)
class _AfterTheFirst:
    """Gated attention that sees no first row; its inputs are queries, keys, values and the gate."""

    heads: Heads
    norms: HeadNorms
    rotary: Rotary

    @property
    def widths(self) -> tuple[int, ...]:
        q, k, v = self._attention.widths
        return (q, k, v, q)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        *rows, gate = inputs
        return g.op.Mul(self._attention.emit(g, rows, context), g.op.Sigmoid(gate))

    @property
    def _attention(self) -> AfterTheFirst:
        return AfterTheFirst(0, self.heads, self.norms, self.rotary)


@dataclass(frozen=True, kw_only=True)
class Qwen35Head(Qwen35):
    """One layer, whose residual stream starts from a token and a state."""

    family = "eagle"
    model_types: ClassVar[tuple[str, ...]] = ("qwen3_5_mtp",)
    transformers_class = None
    target_inputs = "its target's hidden states (a head for several tokens)"

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        """Of its target's config."""
        for key, known in (("mtp_num_hidden_layers", 1), ("mtp_use_dedicated_embeddings", False)):
            if values.get(key, known) != known:
                raise EdgespecError(
                    f"{label}: config.json says {key} = {shortened(values[key])}; edgespec exports "
                    f"heads for several tokens with {known}"
                )
        shape = Qwen35.from_config({**values, "model_type": Qwen35.model_types[0]}, label)
        own = {field.name: getattr(shape, field.name) for field in fields(shape)}
        return cls(**{**own, "layers": 1, "kinds": (ATTENTION,)})

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.FEATURE_FUSION, graph_io.DECODER)

    @property
    def features(self) -> int:
        return self.width

    def prepared_target(self, target: Family) -> Family:
        super().prepared_target(target)
        assert isinstance(target, Qwen35), "a head is opened with its target"
        return target.with_last_state()

    def view(self, weights: Weights) -> Weights:
        return SplitWeights(super().view(weights), [JOIN], self.label)

    def layer(self, index: int) -> tuple[Block, ...]:
        name = f"{LAYER}.self_attn"
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        attention = AttentionBlock(
            name=name,
            norm=self._norm(f"{LAYER}.input_layernorm"),
            in_proj=Linear.named(*(f"{name}.{part}" for part in self.attention_parts)),
            mixer=_AfterTheFirst(self.heads, norms, self.rotary),
            out_proj=Linear.named(f"{name}.o_proj"),
        )
        return attention, self.feed_forward_block(LAYER)

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("mtp.norm")

    def encodings(self, g: Graph, positions: Positions) -> Sequence[PositionEncoding]:
        return [first_key_bias(g, positions, self.heads.count)]

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`; the target's states are taken as they are."""
        if g.name == graph_io.FEATURE_FUSION:
            features = g.input(graph_io.FEATURES, np.float32, ["m", self.width])
            states = g.op.Identity(features)
            g.output(graph_io.FUSED_STATES, states, np.float32, ["m", self.width])
            return
        tokens, positions = decoder_positions(g, layouts=attention.supports_layouts)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        x = self._entering(g, tokens, states, number_format)
        x = self.through_layers(g, x, positions, number_format, attention)[-1]
        self.emit_logits(g, x, number_format)
        hidden = self.last_norm.emit(g, number_format.unrotated(g, x, self.width))
        g.output(graph_io.HIDDEN, hidden, np.float32, ["m", self.width])

    def _entering(
        self, g: Graph, tokens: ir.Value, states: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        """What enters the layer, [m, width]: tokens [m] joined with states [m, width]."""
        embedded = number_format.table(g, tokens, self.table)
        linear = Linear((half(JOIN, TOKEN),))
        ((token,),) = number_format.normed_linears(g, embedded, self._norm(NORMS[TOKEN]), [linear])
        normed = self._norm(NORMS[STATE]).emit(g, states)
        return g.op.Add(token, number_format.down_proj(g, normed, Linear((half(JOIN, STATE),))))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for part, norm in NORMS.items():
            yield half(JOIN, part), (self.width, self.width)
            yield f"{norm}.weight", (self.width,)

    def residual_stream(self) -> ResidualStream:
        """States are not in the head's stream, so their matrix rotates them."""
        own = super().residual_stream()
        token, state = half(JOIN, TOKEN), half(JOIN, STATE)
        return replace(
            own,
            readers={**own.readers, token: f"{NORMS[TOKEN]}.weight"},
            writers=own.writers.union({token, state}),
            down_projs=own.down_projs.union({state}),
        )
