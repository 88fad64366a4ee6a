"""EAGLE-3 heads as SafeAILab, SpecForge and the package "speculators" publish them: a second kind
of EAGLE head.

    features of the row before ── fc ── state ─┬───────────────────── + ── feed-forward ── hidden
                                               └─ hidden_norm ─┐      │
    token ── embed_tokens ── input_layernorm ── side by side ──┴─ attention

The logits are lm_head of the norm of `hidden`. The row of a drafted token takes `hidden` of the row
before in place of `state`. More layers are those of a Llama or a Qwen3. Li et al. (2025, arXiv
2503.01840); docs/decisions/0042-eagle3-heads.md says what a graph does otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.attention.heads import HeadNorms
from edgespec_export.components.blocks.block import AttentionBlock, Block, EmitContext
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions, decoder_positions, first_key_bias
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.after_first import AfterTheFirst
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.eagle3.head_config import head_fields
from edgespec_export.families.drafts.eagle3.split_weights import STATE, TOKEN, SplitWeights, half
from edgespec_export.families.drafts.proposed import proposed_tokens
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Eagle3"]

FUSION = "fc.weight"


@dataclass(frozen=True, kw_only=True)
class Eagle3(Eagle):
    """An EAGLE head that fuses features by one product and reads token and state side by side.

    Attributes:
        vocab_size: tokens that it may propose.
        input_vocab_size: tokens that it reads: all of its target's.
        first: name of its first layer in the checkpoint.
        fusion_norms: names of the norms before the fusion: of all features, or of each layer's;
            none if there are none.
        norm_before_residual: the residual stream starts from the norm of the state.
        norm_output: what stands in for a state is the last norm of `hidden`.
    """

    model_types = ("eagle3",)
    table, head = "embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"d2t|t2d|.*\.self_attn\.rotary_emb\.inv_freq|verifier_\w+\.weight")

    input_vocab_size: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    first: str
    fusion_norms: tuple[str, ...]
    norm_before_residual: bool
    norm_output: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        """Of a head's config with a key "target": layers and positions of its target."""
        return cls(**head_fields(values, label))

    @property
    def _attention(self) -> str:
        return f"{self.first}.self_attn"

    @property
    def _reads(self) -> tuple[str, ...]:
        """The matrices that read token and state side by side."""
        return tuple(f"{self._attention}.{part}_proj.weight" for part in "qkv")

    @property
    def _first_output(self) -> Linear:
        return Linear.named(f"{self._attention}.o_proj", bias=self.out_bias)

    @property
    def _read_norms(self) -> dict[str, str]:
        """The norms of what the first attention reads: the token's embedding and the state."""
        return {TOKEN: f"{self.first}.input_layernorm", STATE: f"{self.first}.hidden_norm"}

    def view(self, weights: Weights) -> Weights:
        return SplitWeights(weights, self._reads, self.label)

    def proposed_tokens(self, weights: Weights) -> list[int]:
        return proposed_tokens(weights, self.vocab_size, self.input_vocab_size, self.label)

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("norm")

    def layer(self, index: int) -> tuple[Block, ...]:
        """Of the first layer what comes after attention, which reads more than the stream."""
        if index == 0:
            return (self._feed_forward_block(self.first),)
        at = f"layers.{index}"
        name = f"{at}.self_attn"
        attention = AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.input_layernorm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in "qkv"), bias=self.qkv_bias),
            mixer=self._mixer(index, name),
            out_proj=Linear.named(f"{name}.o_proj", bias=self.out_bias),
        )
        return attention, self._feed_forward_block(at)

    def _mixer(self, index: int, name: str) -> AfterTheFirst:
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        kept = norms if self.head_norms else None
        return AfterTheFirst(index, self._heads_of(index), kept, self.rotary)

    def encodings(self, g: Graph, positions: Positions) -> Sequence[PositionEncoding]:
        """What hides the first key in each layer, and the keys before its window."""
        count = self.heads.count
        biases = {
            window: first_key_bias(g, positions, count, window)
            for window in dict.fromkeys(self.windows)
        }
        return [biases[window] for window in self.windows]

    def _feature_fusion(self, g: Graph, number_format: NumberFormat) -> None:
        """States from the target's features: one product of all layers' side by side."""
        features = g.input(graph_io.FEATURES, np.float32, ["m", self.features])
        if self.fusion_norms:
            parts = [features]
            if len(self.fusion_norms) > 1:
                parts = list(g.split(features, [self.target_width] * len(self.target_layers)))
            parts = [
                RmsNorm(name, self.epsilon).emit(g, part)
                for name, part in zip(self.fusion_norms, parts, strict=True)
            ]
            features = parts[0] if len(parts) == 1 else g.op.Concat(*parts, axis=1)
        states = number_format.down_proj(g, features, Linear((FUSION,)))
        g.output(graph_io.FUSED_STATES, states, np.float32, ["m", self.width])

    def _decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, layouts=attention.supports_layouts)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        embedded = number_format.table(g, tokens, self.table)
        x = states
        if self.norm_before_residual:
            x = self._norm(self._read_norms[STATE]).emit(g, states)
        for index, encoding in enumerate(self.encodings(g, positions)):
            context = EmitContext(number_format, attention, positions, encoding)
            if index == 0:
                read = {TOKEN: embedded, STATE: states}
                x = g.op.Add(x, self._attended(g, read, context))
            x = self.through_layer(g, x, index, context)
        self.emit_logits(g, x, number_format)
        self.leaving(g, x, number_format)

    def leaving(self, g: Graph, x: ir.Value, number_format: NumberFormat) -> None:
        hidden = self.last_norm.emit(g, x) if self.norm_output else g.op.Identity(x)
        g.output(graph_io.HIDDEN, hidden, np.float32, ["m", self.width])

    def _attended(self, g: Graph, read: dict[str, ir.Value], context: EmitContext) -> ir.Value:
        """[m, width], what attention adds to the states, from what it reads, [m, width] each."""
        halves = []
        for part, x in read.items():
            linear = self._halves(part)
            norm = self._norm(self._read_norms[part])
            halves += context.number_format.normed_linears(g, x, norm, [linear])
        rows = [g.op.Add(*both) for both in zip(*halves, strict=True)]
        y = self._mixer(0, self._attention).emit(g, rows, context)
        (y,) = context.number_format.linear(g, y, self._first_output)
        return y

    def _halves(self, part: str) -> Linear:
        """The halves that read a part; a bias is added with the token's."""
        has_bias = self.qkv_bias and part == TOKEN
        biases = [f"{self._attention}.{each}_proj.bias" for each in "qkv"] if has_bias else []
        return Linear(tuple(half(name, part) for name in self._reads), tuple(biases))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        heads = self.heads
        yield self.table, (self.input_vocab_size, self.width)
        yield self.head, (self.vocab_size, self.width)
        yield FUSION, (self.width, self.features)
        for name in self.fusion_norms:
            yield name, (self.features // len(self.fusion_norms),)
        counts = (heads.count, heads.kv_count, heads.kv_count)
        for name, count in zip(self._reads, counts, strict=True):
            for part in (TOKEN, STATE):
                yield half(name, part), (count * heads.size, self.width)
        yield self._first_output.weights[0], (self.width, heads.count * heads.size)
        for index in range(1, self.layers):
            yield from self.layer(index)[0].shapes(self.width)

    @property
    def is_rotatable(self) -> bool:
        """Whether nothing but products reads a norm of the stream."""
        return super().is_rotatable and not (self.norm_before_residual or self.norm_output)

    def residual_stream(self) -> ResidualStream:
        """The features are not in the head's stream, so their matrix rotates them; embeddings are
        another stream with the same rotation."""
        layers = super(Eagle, self).residual_stream()
        fused = replace(layers, down_projs=layers.down_projs.union({FUSION}))
        readers = {
            half(name, part): f"{norm}.weight"
            for part, norm in self._read_norms.items()
            for name in self._reads
        }
        if not self.is_rotatable:
            return replace(fused, rotated_reads=fused.rotated_reads.union(readers))
        first = self._first_output
        return replace(
            fused,
            readers={**layers.readers, **readers},
            writers=layers.writers.union({FUSION, *first.weights, *first.biases}),
        )
