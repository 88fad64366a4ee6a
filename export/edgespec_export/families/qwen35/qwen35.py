"""Qwen3.5, dense and text alone: gated delta rules, and gated attention in every fourth layer.

Qwen Team (2026); the delta rule is that of Yang et al. (2024, arXiv 2412.06464). Attention rotates
a quarter of each head. Its positions count text, pictures' rows and their columns apart ("mrope");
of a text the three are the same, which is plain rotary positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from edgespec.artifact.graph_io import StateShape
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import PositionEncoding
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.gated_delta import DeltaHeads, GatedDelta
from edgespec_export.components.blocks.self_attention import GatedAttention, SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.qwen35.stored_weights import StoredWeights
from edgespec_export.families.rotary.rope import (
    longest_text,
    partial_rotary,
    rotated_numbers,
    without_pictures,
)
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, rotary_halves
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Qwen35"]

DELTA, ATTENTION = "linear_attention", "full_attention"
ROTATED = 0.25  # of a head, where a config does not say it
HARMLESS = {
    "intermediate_size",  # the matrices themselves have it
    "mamba_ssm_dtype",  # of states, which are float32 here as there
    "mtp_num_hidden_layers",  # its head for several tokens is not part of the text model
    "mtp_use_dedicated_embeddings",
}


@dataclass(frozen=True, kw_only=True)
class Qwen35(DecoderOnly):
    """The shape of a Qwen3.5.

    Attributes:
        kinds: of each layer, `DELTA` or `ATTENTION`.
        delta: the heads of its delta rules.
        rotary: its rotary positions.
        rotated: how many numbers of a head they rotate.
    """

    family = "qwen3_5"
    model_types: ClassVar[tuple[str, ...]] = ("qwen3_5_text",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight|mtp\..*")

    attention_parts: ClassVar[tuple[str, ...]] = ("q_proj", "k_proj", "v_proj", "gate")

    kinds: tuple[str, ...]
    delta: DeltaHeads
    rotary: Rotary
    rotated: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config({"partial_rotary_factor": ROTATED, **without_pictures(values)}, label)
        heads, width = config.count("num_attention_heads"), config.count("hidden_size")
        size = config.count("head_dim", width // heads)
        layers = config.count("num_hidden_layers")
        positions = min(longest_text(config), MAX_POSITIONS)
        rotated = rotated_numbers(config, size)
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size"),
            width=width,
            layers=layers,
            heads=Heads(heads, config.count("num_key_value_heads", heads), size, scale=size**-0.5),
            epsilon=config.number("rms_norm_eps", 1e-6),
            tied_head=config.flag("tie_word_embeddings", False),
            positions=positions,
            kinds=_kinds(config, layers),
            delta=_delta_heads(config),
            rotary=partial_rotary(config, size, rotated, positions, label),
            rotated=rotated,
        )
        config.must_be("hidden_act", "silu", "swish")
        config.must_be("attention_bias", False)
        config.must_be("attn_output_gate", True)
        config.must_be("mlp_only_layers", [])
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        apart = StoredWeights(weights, self.heads.size)
        order = rotary_halves(self.heads.size, self.rotated)
        heads = {"q_proj": self.heads.count, "k_proj": self.heads.kv_count}
        return InRotaryOrder(apart, order, {**heads, "q_norm": 1, "k_norm": 1})

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        is_delta = self.kinds[index] == DELTA
        return (
            self._delta_block(index, at) if is_delta else self._attention_block(index, at),
            self.feed_forward_block(at),
        )

    def feed_forward_block(self, at: str) -> FeedForwardBlock:
        """Of the layer with this name."""
        name = f"{at}.mlp"
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.post_attention_layernorm"),
            in_proj=Linear.named(f"{name}.gate_proj", f"{name}.up_proj"),
            activation=Gate("silu"),
            out_proj=Linear.named(f"{name}.down_proj"),
        )

    def _delta_block(self, index: int, at: str) -> AttentionBlock:
        name = f"{at}.linear_attn"
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.input_layernorm"),
            in_proj=Linear.named(*(f"{name}.in_proj_{part}" for part in ("z", "qkv", "b", "a"))),
            mixer=GatedDelta(
                layer=self.kinds[:index].count(DELTA),
                heads=self.delta,
                convolution=f"{name}.conv1d.weight",
                decay=f"{name}.A_log",
                forget_bias=f"{name}.dt_bias",
                norm=self._norm(f"{name}.norm"),
            ),
            out_proj=Linear.named(f"{name}.out_proj"),
        )

    def _attention_block(self, index: int, at: str) -> AttentionBlock:
        name = f"{at}.self_attn"
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        attention = SelfAttention(self.kinds[:index].count(ATTENTION), self.heads, norms)
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.input_layernorm"),
            in_proj=Linear.named(*(f"{name}.{part}" for part in self.attention_parts)),
            mixer=GatedAttention(attention),
            out_proj=Linear.named(f"{name}.o_proj"),
        )

    @property
    def is_recurrent(self) -> bool:
        return DELTA in self.kinds

    @property
    def states(self) -> tuple[StateShape, ...]:
        return (StateShape(self.delta.state, self.delta.row),) * self.kinds.count(DELTA)

    @property
    def cache_layers(self) -> int:
        return self.kinds.count(ATTENTION)

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.norm")

    def encodings(self, g: Graph, positions: Positions) -> Sequence[PositionEncoding]:
        return [self.rotary.emit(g, positions)] * self.layers

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for index, kind in enumerate(self.kinds):
            if kind == DELTA:
                name, delta = f"model.layers.{index}.linear_attn", self.delta
                yield f"{name}.conv1d.weight", (delta.channels, 1, delta.taps)
                yield f"{name}.A_log", (delta.v_count,)
                yield f"{name}.dt_bias", (delta.v_count,)
                yield f"{name}.norm.weight", (delta.value_size,)

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)


def _delta_heads(config: Config) -> DeltaHeads:
    heads = DeltaHeads(
        k_count=config.count("linear_num_key_heads", 16),
        v_count=config.count("linear_num_value_heads", 32),
        key_size=config.count("linear_key_head_dim", 128),
        value_size=config.count("linear_value_head_dim", 128),
        taps=config.count("linear_conv_kernel_dim", 4),
    )
    if heads.v_count % heads.k_count:
        raise ValueError(
            f"linear_num_value_heads is {heads.v_count}, no multiple of {heads.k_count}"
        )
    if heads.taps < 2:
        raise ValueError(f"linear_conv_kernel_dim is {heads.taps}")
    return heads


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    """The kind of each layer: as listed, or all but every n-th a delta rule."""
    interval = config.count("full_attention_interval", 4)
    usual = [ATTENTION if (index + 1) % interval == 0 else DELTA for index in range(layers)]
    kinds = tuple(config.get("layer_types", usual))
    if len(kinds) != layers or not set(kinds) <= {DELTA, ATTENTION}:
        raise ValueError(f"layer_types has {len(kinds)} of {layers} layers: {sorted(set(kinds))}")
    return kinds
