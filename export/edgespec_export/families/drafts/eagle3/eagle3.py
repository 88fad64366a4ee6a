"""EAGLE-3 heads as SafeAILab and SpecForge publish them: a second kind of EAGLE head.

    features of the row before ── fc ── state ─┬───────────────────── + ── feed-forward ── hidden
                                               └─ hidden_norm ─┐      │
    token ── embed_tokens ── input_layernorm ── side by side ──┴─ attention

The logits are lm_head of the norm of `hidden`. The row of a drafted token takes `hidden` of the row
before in place of `state`. Li et al. (2025, arXiv 2503.01840); docs/decisions/0042-eagle3-heads.md
says what a graph does otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.heads import Projections, apply_rotary
from edgespec_export.components.blocks.block import Block, EmitContext
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import (
    Positions,
    decoder_positions,
    first_key_bias,
)
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.eagle3.split_weights import STATE, TOKEN, SplitWeights, half
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import rope_kind
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Eagle3"]

D2T = "d2t"  # what is added to a draft token's id for the target's
FUSION = "fc.weight"
LAYER = "midlayer"
ATTENTION = f"{LAYER}.self_attn"
READS = tuple(f"{ATTENTION}.{part}_proj.weight" for part in "qkv")
WRITES = f"{ATTENTION}.o_proj"
# The norms of what attention reads: the token's embedding and the state.
NORMS = {TOKEN: f"{LAYER}.input_layernorm", STATE: f"{LAYER}.hidden_norm"}


@dataclass(frozen=True, kw_only=True)
class Eagle3(Eagle):
    """An EAGLE head that fuses features by one product and reads token and state side by side.

    Attributes:
        vocab_size: tokens that it may propose.
        input_vocab_size: tokens that it reads: all of its target's.
    """

    model_types = ("eagle3",)
    table, head = "embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(rf"{D2T}|t2d|{ATTENTION}\.rotary_emb\.inv_freq")

    input_vocab_size: int  # pyright: ignore[reportGeneralTypeIssues]  # required here

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        """Of a head's config with a key "target": layers and positions of its target."""
        config = Config(values, label)
        target = config.need("target")
        config.must_be("num_hidden_layers", 1)
        for key in ("attention_bias", "bias", "fc_norm", "mlp_bias", "norm_before_residual"):
            config.must_be(key, False)
        if rope_kind(config) == "yarn":
            raise EdgespecError(
                f"{label}: config.json asks for rope scaling 'yarn', which programs that train "
                "heads compute differently; edgespec exports it for whole models only"
            )
        width = config.count("target_hidden_size", config.count("hidden_size"))
        read = config.count("vocab_size")
        own = {
            *("bias", "draft_vocab_size", "eagle_config", "fc_norm", "norm_before_residual"),
            *("target", "target_model_type", "tie_word_embeddings"),
        }
        eagle = Eagle.from_config(
            {
                **{key: value for key, value in values.items() if key not in own},
                "layers_of": "llama",
                "target_hidden_size": width,
                "target_layers": _layers(config.get("eagle_config", {}), target["layers"], label),
                "vocab_size": config.count("draft_vocab_size", read),
            },
            label,
        )
        shape = {field.name: getattr(eagle, field.name) for field in fields(eagle)}
        # Rotary positions go on; max_position_embeddings says how long the texts of training were.
        longer = {
            "positions": target["positions"],
            "rotary": replace(eagle.rotary, positions=target["positions"]),
        }
        return cls(**{**shape, **longer, "input_vocab_size": read})

    def view(self, weights: Weights) -> Weights:
        return SplitWeights(weights, READS, self.label)

    def proposed_tokens(self, weights: Weights) -> list[int]:
        if D2T not in weights.names():
            if self.vocab_size == self.input_vocab_size:
                return list(range(self.vocab_size))
            raise EdgespecError(
                f"{self.label} proposes {self.vocab_size} of {self.input_vocab_size} tokens, and "
                f"has no tensor {D2T!r} that says which; download it again"
            )
        added = weights.read(D2T)
        tokens = np.arange(self.vocab_size, dtype=np.int64)
        if added.shape == tokens.shape:
            tokens += added.astype(np.int64)
            within = tokens[0] >= 0 and tokens[-1] < self.input_vocab_size
            if within and (np.diff(tokens) > 0).all():
                return [int(token) for token in tokens]
        raise EdgespecError(
            f"{self.label}: tensor {D2T!r} does not name {self.vocab_size} tokens of "
            f"{self.input_vocab_size} in increasing order; download it again"
        )

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("norm")

    def layer(self, index: int) -> tuple[Block, ...]:
        """What comes after attention, which reads more than the residual stream."""
        return (self._feed_forward_block(LAYER),)

    def _feature_fusion(self, g: Graph, number_format: NumberFormat) -> None:
        """States from the target's features: one product of all layers' side by side."""
        features = g.input(graph_io.FEATURES, np.float32, ["m", self.features])
        states = number_format.down_proj(g, features, Linear((FUSION,)))
        g.output(graph_io.FUSED_STATES, states, np.float32, ["m", self.width])

    def _decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, layouts=attention.supports_layouts)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        embedded = number_format.table(g, tokens, self.table)
        hidden_first = first_key_bias(g, positions, self.heads.count)
        context = EmitContext(number_format, attention, positions, hidden_first)
        x = g.op.Add(
            states, self._attended(g, {TOKEN: embedded, STATE: states}, context, positions)
        )
        for block in self.blocks():
            x = block.emit(g, x, context)
        self.emit_logits(g, x, number_format)
        self.leaving(g, x, number_format)

    def _attended(
        self, g: Graph, read: dict[str, ir.Value], context: EmitContext, positions: Positions
    ) -> ir.Value:
        """[m, width], what attention adds to the states, from what it reads, [m, width] each."""
        halves = []
        for part, x in read.items():
            linear = Linear(tuple(half(name, part) for name in READS))
            halves += context.number_format.normed_linears(g, x, self._norm(NORMS[part]), [linear])
        q, k, v = (g.op.Add(*both) for both in zip(*halves, strict=True))
        angles = self.rotary.emit(g, positions)
        q = apply_rotary(g, q, self.heads.count, angles, self.heads)
        k = apply_rotary(g, k, self.heads.kv_count, angles, self.heads)
        rows = Projections(q, k, v, self.heads)
        assert context.encoding is not None
        y = context.attention.cached(g, rows, 0, positions, context.encoding)
        (y,) = context.number_format.linear(g, y, Linear.named(WRITES))
        return y

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        heads = self.heads
        yield self.table, (self.input_vocab_size, self.width)
        yield self.head, (self.vocab_size, self.width)
        yield FUSION, (self.width, self.features)
        for name, count in zip(READS, (heads.count, heads.kv_count, heads.kv_count), strict=True):
            for part in (TOKEN, STATE):
                yield half(name, part), (count * heads.size, self.width)
        yield f"{WRITES}.weight", (self.width, heads.count * heads.size)

    def residual_stream(self) -> ResidualStream:
        """The features are not in the head's stream, so their matrix rotates them; embeddings are
        another stream with the same rotation."""
        layer = super(Eagle, self).residual_stream()
        readers = {
            half(name, part): f"{norm}.weight" for part, norm in NORMS.items() for name in READS
        }
        return replace(
            layer,
            readers={**layer.readers, **readers},
            writers=layer.writers.union({FUSION, f"{WRITES}.weight"}),
            down_projs=layer.down_projs.union({FUSION}),
        )


def _layers(settings: dict[str, Any], count: int, label: str) -> list[int]:
    """The layers of a target with `count` whose outputs a head reads, counted from 1.

    A config that names them counts from 0. Those that are read otherwise are given as inputs of the
    layers 2, count // 2 and count - 3 counted from 0, which are the same numbers of layers.
    """
    config = Config(settings, f"{label}: eagle_config")
    config.must_be("use_aux_hidden_state", True)
    named = config.get("eagle_aux_hidden_state_layer_ids")
    config.refuse_the_rest()
    if named is not None and not all(type(layer) is int for layer in named):
        raise ValueError(f"eagle_aux_hidden_state_layer_ids is {shortened(named)}")
    layers = [2, count // 2, count - 3] if named is None else [layer + 1 for layer in named]
    if not layers or layers != sorted(set(layers)) or layers[0] < 1 or layers[-1] > count:
        raise EdgespecError(
            f"{label} reads layers {shortened(layers)} of its target, counted from 1 and upwards, "
            f"and this one has {count}; pair it with the target it was trained for"
        )
    return layers
