"""T5Gemma 2: an encoder and a decoder that are Gemmas 3, whose self-attention sees the source, too.

Zhang et al. (2025, arXiv 2512.14856). A decoder layer has one attention: its keys and values are
those of the text so far and those of the source, which the same matrices make. All tables are one.
Images are left out: without them they change no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec_export.components.attention.heads import HeadNorms, normed_heads
from edgespec_export.components.blocks.block import Block
from edgespec_export.components.blocks.source_attention import MergedAttention, Sight
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions
from edgespec_export.families.gemma.gemma3 import Gemma3
from edgespec_export.families.gemma.t5gemma import (
    DECODER,
    ENCODER,
    HARMLESS,
    OF_PARTS,
    EncodedGemma,
)
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["T5Gemma2"]

END_OF_IMAGE = f"{ENCODER}.embed_tokens.eoi_embedding"
OF_IMAGES = {
    *("boi_token_index", "eoi_token_index", "image_token_id", "image_token_index"),
    *("mm_tokens_per_image", "vision_config"),
}


@dataclass(frozen=True, kw_only=True)
class T5Gemma2(EncodedGemma):
    """The shape of a T5Gemma 2.

    Attributes:
        image_end: a token that has an embedding of its own, which is not scaled.
    """

    family = "t5gemma2"
    model_types: ClassVar[tuple[str, ...]] = ("t5gemma2",)
    table = f"{ENCODER}.embed_tokens.weight"
    copies = (f"{DECODER}.embed_tokens.weight",)
    redundant = re.compile(
        r"lm_head\.out_proj\.weight|model\.decoder\.embed_tokens\.(weight|eoi_embedding)"
        r"|model\.encoder\.(vision_tower|multi_modal_projector)\..*"
    )

    image_end: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config({**values, "encoder": None, "decoder": None}, label)
        encoder, decoder = values["encoder"], values["decoder"]
        source, text = (_gemma3(part, label) for part in (encoder["text_config"], decoder))
        fields = cls.fields_of(config, source, text, decoder, label)
        image_end = config.get("eoi_token_index", encoder.get("eoi_token_index", 256_000))
        config.must_be("tie_word_embeddings", True)
        config.refuse_the_rest(harmless=HARMLESS | OF_IMAGES)
        if source.width != text.width or source.heads != text.heads:
            raise ValueError("encoder and decoder have other widths or heads")
        if type(image_end) is not int:
            raise ValueError(f"eoi_token_index is {image_end!r}")
        return cls(**fields, image_end=image_end)

    def decoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.layers):
            at = f"{DECODER}.layers.{layer}"
            rotary = self.text.rotary[self.text.kinds[layer]]
            norms = self.head_norms(f"{at}.self_attn")
            merged = MergedAttention(layer, self.heads_of(layer), norms, rotary)
            yield self._attention_block(at, "self_attn", "qkv", merged)
            yield self._feed_forward_block(at)

    def cross_projections(self, layer: int) -> Linear:
        """The matrices of the layer's own keys and values."""
        at = f"{DECODER}.layers.{layer}.self_attn"
        return Linear.named(f"{at}.k_proj", f"{at}.v_proj")

    def crossed(self, g: Graph, layer: int, parts: Sequence[ir.Value]) -> Sequence[ir.Value]:
        keys, values = parts
        norm = RmsNorm(f"{DECODER}.layers.{layer}.self_attn.k_norm.weight", self.epsilon)
        return [normed_heads(g, keys, norm, self.heads.size), values]

    def sight_of(self, window: int) -> Sight:
        """Half of the window on each side."""
        return Sight((window + 1) // 2 - 1, window // 2)

    def head_norms(self, attention: str) -> HeadNorms:
        q_norm, k_norm = (f"{attention}.{part}_norm.weight" for part in "qk")
        return HeadNorms(q_norm, k_norm, self.epsilon)

    def encoder_embedding(
        self, g: Graph, tokens: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        rows = number_format.table(g, tokens, self.table)
        rows = g.op.Mul(rows, g.constant(self.width**0.5, np.float32))
        is_end = g.op.Equal(tokens, g.constant(self.image_end, np.int64))
        return g.op.Where(g.op.Unsqueeze(is_end, g.ints(1)), g.weight(END_OF_IMAGE), rows)

    def decoder_embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        return self.encoder_embedding(g, tokens, number_format)


def _gemma3(part: Mapping[str, Any], label: str) -> Gemma3:
    """The shape of the encoder's text model or of the decoder, from its config."""
    own = {key: value for key, value in part.items() if key not in OF_PARTS}
    return Gemma3.from_config({**own, "model_type": "gemma3_text"}, label)
