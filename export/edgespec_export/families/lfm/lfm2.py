"""LFM2 and LFM2.5: gated convolutions over three positions, and attention in every third layer.

Liquid AI (2025, arXiv 2511.23404). A convolution keeps its inputs in the cache, position by
position (components/blocks/short_convolution.py), so the cache has more layers than the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import (
    AttentionBlock,
    Block,
    FeedForwardBlock,
)
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.blocks.short_convolution import ShortConvolution, cache_layers_for
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, whole_rotary
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Lfm2"]

CONVOLUTION, ATTENTION = "conv", "full_attention"
DEFAULT_BASE = 1e6
HARMLESS = {
    "block_auto_adjust_ff_dim",  # the matrices themselves have their widths
    "block_ff_dim",
    "block_ffn_dim_multiplier",
    "block_multiple_of",
    "intermediate_size",
    "block_mlp_init_scale",
    "block_out_init_scale",
    "block_use_xavier_init",
    "conv_use_xavier_init",
    "theta",  # repeats rope_theta
}


@dataclass(frozen=True, kw_only=True)
class Lfm2(DecoderOnly):
    """The shape of an LFM2.

    Attributes:
        kinds: of each layer, `CONVOLUTION` or `ATTENTION`.
        taps: how many positions a convolution reads.
        conv_bias: convolutions and their projections have biases.
        rotary_of: the rotary positions of each kind of layer that attends.
    """

    family = "lfm2"
    model_types = ("lfm2",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight")
    kinds: tuple[str, ...]
    taps: int
    conv_bias: bool
    rotary_of: Mapping[str, Rotary]

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config({"rope_theta": DEFAULT_BASE, **values}, label)
        shape = cls(**cls.fields_of(config, label))
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    @staticmethod
    def fields_of(config: Config, label: str) -> dict[str, Any]:
        """The fields of an LFM2; keys that are left over are not refused."""
        heads, width = config.count("num_attention_heads", 32), config.count("hidden_size", 2560)
        size = config.count("head_dim", width // heads)
        layers = config.count("num_hidden_layers", 32)
        epsilon = config.number("norm_eps", 1e-5)
        tied = config.flag("tie_embedding", config.flag("tie_word_embeddings", True))
        positions = min(config.count(LENGTH, 128_000), MAX_POSITIONS)
        taps, kv_heads = config.count("conv_L_cache", 3), config.count("num_key_value_heads", 8)
        if taps < 2:
            raise ValueError(f"conv_L_cache is {taps}")
        for key in ("block_dim", "conv_dim", "conv_dim_out"):
            config.must_be(key, width)
        config.must_be("num_heads", heads)
        config.must_be("block_norm_eps", epsilon)
        config.must_be("use_pos_enc", True)
        config.must_be("block_use_swiglu", True)
        return {
            "label": label,
            "vocab_size": config.count("vocab_size", 65536),
            "width": width,
            "layers": layers,
            "heads": Heads(heads, kv_heads, size, scale=size**-0.5),
            "epsilon": epsilon,
            "tied_head": tied,
            "positions": positions,
            "kinds": _kinds(config, layers),
            "taps": taps,
            "conv_bias": config.flag("conv_bias", False),
            "rotary_of": {ATTENTION: whole_rotary(config, size, positions, label)},
        }

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        if self.kinds[index] == CONVOLUTION:
            return self._convolution_block(index, at), self._feed_forward_block(at)
        return self._attention_block(index, at), self._feed_forward_block(at)

    def _convolution_block(self, index: int, at: str) -> AttentionBlock:
        name, convolution = f"{at}.conv", self._convolution(index)
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.operator_norm"),
            in_proj=Linear.named(f"{name}.in_proj", bias=self.conv_bias, widths=convolution.widths),
            mixer=convolution,
            out_proj=Linear.named(f"{name}.out_proj", bias=self.conv_bias),
            has_products=True,
        )

    def _attention_block(self, index: int, at: str) -> AttentionBlock:
        name = f"{at}.self_attn"
        q_norm, k_norm = (f"{name}.{part}_layernorm.weight" for part in "qk")
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.operator_norm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in "qkv")),
            mixer=SelfAttention(
                self._first_cache_layer(index), self.heads, HeadNorms(q_norm, k_norm, self.epsilon)
            ),
            out_proj=Linear.named(f"{name}.out_proj"),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.feed_forward"
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.ffn_norm"),
            in_proj=Linear.named(f"{name}.w1", f"{name}.w3"),
            activation=Gate("silu"),
            out_proj=Linear.named(f"{name}.w2"),
        )

    def _convolution(self, index: int) -> ShortConvolution:
        name = f"model.layers.{index}.conv.conv"
        return ShortConvolution(
            layer=self._first_cache_layer(index),
            heads=self.heads,
            width=self.width,
            taps=self.taps,
            weight=f"{name}.weight",
            bias=f"{name}.bias" if self.conv_bias else None,
        )

    # --- the cache ---

    @property
    def knows_layouts(self) -> bool:
        """A convolution without an operator writes the rows of a call next to each other."""
        return CONVOLUTION not in self.kinds or self._convolution(0).has_operators

    @property
    def cache_layers(self) -> int:
        return self._first_cache_layer(self.layers)

    def _first_cache_layer(self, index: int) -> int:
        """The first layer of the cache that a layer of the model uses."""
        each = cache_layers_for(self.width, self.heads)
        return sum(each if kind == CONVOLUTION else 1 for kind in self.kinds[:index])

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.embedding_norm")

    def encodings(self, g: Graph, positions: Positions) -> list[Angles | None]:
        angles = {kind: rotary.emit(g, positions) for kind, rotary in self.rotary_of.items()}
        return [angles.get(kind) for kind in self.kinds]

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for index, kind in enumerate(self.kinds):
            if kind == CONVOLUTION:
                yield self._convolution(index).weight, (self.width, 1, self.taps)

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    """The kind of each layer: a list of them, or of the layers with attention."""
    attending = config.get("full_attn_idxs", list(range(layers)))
    by_index = [ATTENTION if index in attending else CONVOLUTION for index in range(layers)]
    kinds = tuple(config.get("layer_types", by_index))
    if len(kinds) != layers or not set(kinds) <= {CONVOLUTION, ATTENTION}:
        raise ValueError(f"layer_types has {len(kinds)} of {layers} layers: {sorted(set(kinds))}")
    return kinds
