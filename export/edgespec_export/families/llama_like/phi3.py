"""Phi-3: a Llama whose projections are stored together and whose positions rotate part of a head.

`qkv_proj` holds queries, keys and values, `gate_up_proj` both inputs of the feed-forward. Abdin et
al. (2024, arXiv 2404.14219).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.llama_like.llama_windows import layer_windows
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.longrope import split_longrope
from edgespec_export.families.rotary.rope import longest_text, partial_rotary, rotated_numbers
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, rotary_halves
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Phi3"]


@dataclass(frozen=True, kw_only=True)
class Phi3(DecoderOnly):
    """The shape of a Phi-3.

    Attributes:
        rotary: its rotary positions.
        rotated: how many numbers of a head are rotated, the first ones in the checkpoint.
        activation: of the feed-forward's gate.
        feed_forward_width: width of the feed-forward's activations.
    """

    family = "phi3"
    model_types = ("phi3",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight")  # a copy of a tied head

    rotary: Rotary
    rotated: int
    activation: str
    feed_forward_width: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        values, long = split_longrope(values)
        config = Config(values, label)
        heads, width = config.count("num_attention_heads"), config.count("hidden_size")
        size = width // heads
        rotated = rotated_numbers(config, size)
        positions = min(longest_text(config), MAX_POSITIONS)
        if long is not None:
            positions = min(positions, long.positions)
        rotary = partial_rotary(config, size, rotated, positions, label)
        layers = config.count("num_hidden_layers")
        # All layers have the same window.
        window, *_ = layer_windows(config, "every", layers, positions, label)
        kv_heads = config.count("num_key_value_heads", heads)
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size"),
            width=width,
            layers=layers,
            heads=Heads(heads, kv_heads, size, scale=size**-0.5, window=window),
            epsilon=config.number("rms_norm_eps", 1e-5),
            rotary=rotary if long is None else long.applied(rotary),
            rotated=rotated,
            activation=config.activation("hidden_act", "silu"),
            feed_forward_width=config.count("intermediate_size"),
            tied_head=config.flag("tie_word_embeddings", False),
            positions=positions,
        )
        config.must_be("is_encoder_decoder", False)
        config.must_be("attention_bias", False)
        config.get("original_max_position_embeddings")  # of longrope and yarn
        config.refuse_the_rest(harmless={"embd_pdrop", "resid_pdrop"})
        return shape

    def view(self, weights: Weights) -> Weights:
        order = rotary_halves(self.heads.size, self.rotated)
        heads = {"qkv_proj": self.heads.count + self.heads.kv_count}
        return InRotaryOrder(weights, order, heads)

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        attention = SelfAttention(index, self.heads)
        return (
            AttentionBlock(
                name=f"{at}.self_attn",
                norm=self._norm(f"{at}.input_layernorm"),
                in_proj=Linear.named(f"{at}.self_attn.qkv_proj", widths=attention.widths),
                mixer=attention,
                out_proj=Linear.named(f"{at}.self_attn.o_proj"),
            ),
            FeedForwardBlock(
                name=f"{at}.mlp",
                norm=self._norm(f"{at}.post_attention_layernorm"),
                in_proj=Linear.named(
                    f"{at}.mlp.gate_up_proj",
                    widths=(self.feed_forward_width, self.feed_forward_width),
                ),
                activation=Gate(self.activation),
                out_proj=Linear.named(f"{at}.mlp.down_proj"),
            ),
        )

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.norm")

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        return [self.rotary.emit(g, positions)] * self.layers

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)
