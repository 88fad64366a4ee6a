"""What decoders with layer norms share: their blocks are a Llama's, or GPT-2's, with other norms.

Some have attention and feed-forward side by side: both read the residual stream before the layer.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import (
    AttentionBlock,
    Block,
    EmitContext,
    FeedForwardBlock,
    side_by_side,
)
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.layer_norm import LayerNorm
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import longest_text, partial_rotary, rotated_numbers
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["FUSED", "HARMLESS", "LayerNormed", "LayerNormedRotary"]

FUSED = "query_key_value"  # the matrix of GPT-NeoX's and BLOOM's attention
HARMLESS = {"intermediate_size"}  # the matrices themselves have it


@dataclass(frozen=True, kw_only=True)
class LayerNormed(DecoderOnly):
    """A decoder with layer norms.

    Attributes:
        activation: of the feed-forward.
    """

    activation: str

    @property
    def last_norm(self) -> LayerNorm:
        return self._norm(self.last_norm_name)

    @property
    @abstractmethod
    def last_norm_name(self) -> str: ...

    def _norm(self, name: str) -> LayerNorm:
        return LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)

    def _fused_layer(
        self, at: str, attention: str, index: int, *, attention_bias: bool = True
    ) -> tuple[Block, ...]:
        """A layer with GPT-NeoX's and BLOOM's names.

        Args:
            at: name of the layer.
            attention: name of its attention.
        """
        mixer, within = SelfAttention(index, self.heads), f"{at}.{attention}"
        return (
            AttentionBlock(
                name=within,
                norm=self._norm(f"{at}.input_layernorm"),
                in_proj=Linear.named(f"{within}.{FUSED}", bias=attention_bias, widths=mixer.widths),
                mixer=mixer,
                out_proj=Linear.named(f"{within}.dense", bias=attention_bias),
            ),
            FeedForwardBlock(
                name=f"{at}.mlp",
                norm=self._norm(f"{at}.post_attention_layernorm"),
                in_proj=Linear.named(f"{at}.mlp.dense_h_to_4h", bias=True),
                activation=Ungated(self.activation),
                out_proj=Linear.named(f"{at}.mlp.dense_4h_to_h", bias=True),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class LayerNormedRotary(LayerNormed):
    """One with rotary positions of a part of each head.

    Attributes:
        rotary: its rotary positions.
        rotated: how many numbers of a head are rotated, the first ones in the checkpoint.
        is_parallel: attention and feed-forward are side by side.
    """

    rotary: Rotary
    rotated: int
    is_parallel: bool

    @staticmethod
    def rotary_fields_of(config: Config, label: str) -> dict[str, Any]:
        """The fields that follow from keys with a Llama's names; others are not refused."""
        count, width = config.count("num_attention_heads"), config.count("hidden_size")
        size = width // count
        positions = min(longest_text(config), MAX_POSITIONS)
        rotated = rotated_numbers(config, size)
        if count * size != width:
            raise ValueError(f"hidden_size is {width}, with {count} heads")
        config.must_be("is_encoder_decoder", False)
        kv_count = config.count("num_key_value_heads", count)
        return {
            "label": label,
            "vocab_size": config.count("vocab_size"),
            "width": width,
            "layers": config.count("num_hidden_layers"),
            "heads": Heads(count, kv_count, size, scale=size**-0.5),
            "epsilon": config.number("layer_norm_eps", 1e-5),
            "tied_head": config.flag("tie_word_embeddings", False),
            "positions": positions,
            "rotary": partial_rotary(config, size, rotated, positions, label),
            "rotated": rotated,
        }

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        return [self.rotary.emit(g, positions)] * self.layers

    def through_layer(self, g: Graph, x: ir.Value, index: int, context: EmitContext) -> ir.Value:
        if not self.is_parallel:
            return super().through_layer(g, x, index, context)
        return side_by_side(g, x, self.layer(index), context)
