"""T5Gemma: an encoder and a decoder that are Gemmas 2 each, with cross-attention between.

Zhang et al. (2025, arXiv 2504.06225). The encoder's windows look both ways. Its embedding is a
table of its own, and it may be wider or narrower than the decoder.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import PositionEncoding
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock, Mixer
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import CrossAttention, SelfAttention
from edgespec_export.components.blocks.source_attention import RotatedEncoderAttention, Sight
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.positions import Positions
from edgespec_export.families.encoder_decoder import EncoderDecoder
from edgespec_export.families.gemma.gemma2 import Gemma2
from edgespec_export.families.gemma.gemma3 import Gemma3, WithOne
from edgespec_export.families.model_config import Config
from edgespec_export.families.renamed_tensors import RenamedTensors
from edgespec_export.families.windows import WINDOWED, heads_of_kind
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["EncodedGemma", "T5Gemma"]

ENCODER, DECODER = "model.encoder", "model.decoder"
MAX_DEFAULT_CAPACITY = 8192
# What the whole model's config says of its two parts, and a Gemma has not.
OF_PARTS = {
    *("architectures", "attention_dropout", "classifier_dropout_rate", "dropout_rate"),
    *("cross_attention_hidden_size", "is_decoder", "model_type", "transformers_version"),
}
HARMLESS = {"classifier_dropout_rate", "dropout_rate", "vocab_size", "initializer_range"}


@dataclass(frozen=True, kw_only=True)
class EncodedGemma(EncoderDecoder):
    """What T5Gemma and T5Gemma 2 share.

    Attributes:
        source: the shape of the encoder.
        text: that of the decoder.
    """

    head = "lm_head.out_proj.weight"

    positions: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    source: Gemma3
    text: Gemma3

    @classmethod
    def fields_of(
        cls, config: Config, source: Gemma3, text: Gemma3, decoder: Mapping[str, Any], label: str
    ) -> dict[str, Any]:
        """The fields that follow from both parts; keys that are left over are not refused.

        Args:
            decoder: its config.
        """
        start = config.get("decoder_start_token_id", decoder.get("bos_token_id", 2))
        if type(start) is not int or not 0 <= start < text.vocab_size:
            raise ValueError(f"decoder_start_token_id is {start!r}")
        config.must_be("is_encoder_decoder", True)
        return {
            "label": label,
            "vocab_size": text.vocab_size,
            "width": text.width,
            "layers": text.layers,
            "encoder_layers": source.layers,
            "heads": replace(text.heads, is_unusual=True),
            "epsilon": text.epsilon,
            "tied_head": config.flag("tie_word_embeddings", True),
            "positions": text.positions,
            "start_token": start,
            "source": source,
            "text": text,
        }

    @property
    def capacity(self) -> int:
        return min(self.positions, MAX_DEFAULT_CAPACITY)

    def view(self, weights: Weights) -> Weights:
        return WithOne(RenamedTensors(weights, lambda name: name.replace(".text_model.", ".")))

    # --- blocks ---

    def encoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.encoder_layers):
            at = f"{ENCODER}.layers.{layer}"
            heads = replace(self.source.heads, is_unusual=True)
            rotary = self.source.rotary[self.source.kinds[layer]]
            sight = self.sight_of(self.source.window) if self._has_window(layer) else None
            norms = self.head_norms(f"{at}.self_attn")
            mixer = RotatedEncoderAttention(heads, rotary, norms, sight)
            yield self._attention_block(at, "self_attn", "qkv", mixer)
            yield self._feed_forward_block(at)

    def _has_window(self, layer: int) -> bool:
        source = self.source
        return source.kinds[layer] == WINDOWED and source.window < source.positions

    @abstractmethod
    def sight_of(self, window: int) -> Sight:
        """What a row of a windowed encoder layer sees."""

    @abstractmethod
    def head_norms(self, attention: str) -> HeadNorms | None:
        """Of queries and keys."""

    def heads_of(self, layer: int) -> Heads:
        """The heads of a decoder layer, with its window."""
        return heads_of_kind(self.heads, self.text.kinds[layer], self.text.window, self.positions)

    def _attention_block(self, at: str, kind: str, reads: str, mixer: Mixer) -> AttentionBlock:
        name = f"{at}.{kind}"
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.pre_{kind}_layernorm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in reads)),
            mixer=mixer,
            out_proj=Linear.named(f"{name}.o_proj"),
            post_norm=self._norm(f"{at}.post_{kind}_layernorm"),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.mlp"
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.pre_feedforward_layernorm"),
            in_proj=Linear.named(f"{name}.gate_proj", f"{name}.up_proj"),
            activation=Gate("gelu_pytorch_tanh"),
            out_proj=Linear.named(f"{name}.down_proj"),
            post_norm=self._norm(f"{at}.post_feedforward_layernorm"),
        )

    @property
    def encoder_norm(self) -> RmsNorm:
        return RmsNorm(f"{ENCODER}.norm.weight", self.source.epsilon)

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)

    # --- positions and logits ---

    def encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """The positions of the source's rows, int64 [source], of which each layer makes angles."""
        length = g.op.Reshape(g.op.Shape(tokens), g.constant([], np.int64))
        return g.op.Range(g.constant(0, np.int64), length, g.constant(1, np.int64))

    def decoder_encoding(self, g: Graph, positions: Positions) -> PositionEncoding:
        """The angles of the last layer's kind."""
        return self.text.rotary[self.text.kinds[-1]].emit(g, positions)

    def decoder_embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        rows = number_format.table(g, tokens, self.table)
        return g.op.Mul(rows, g.constant(self.width**0.5, np.float32))

    def logits(
        self, g: Graph, rows: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        norm = self._norm(f"{DECODER}.norm")
        head = OutputHead(self.tables[-1], norm, cap=self.text.logit_cap)
        return number_format.head(g, rows, head)


@dataclass(frozen=True, kw_only=True)
class T5Gemma(EncodedGemma):
    """The shape of a T5Gemma."""

    family = "t5gemma"
    model_types: ClassVar[tuple[str, ...]] = ("t5gemma",)
    table = f"{DECODER}.embed_tokens.weight"
    redundant = re.compile(r"lm_head\.out_proj\.weight")  # a copy of a tied head

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config({**values, "encoder": None, "decoder": None}, label)
        source, text = (_gemma2(values[part], label) for part in ("encoder", "decoder"))
        shape = cls(**cls.fields_of(config, source, text, values["decoder"], label))
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def decoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.layers):
            at = f"{DECODER}.layers.{layer}"
            own = SelfAttention(layer, self.heads_of(layer))
            yield self._attention_block(at, "self_attn", "qkv", own)
            cross = CrossAttention(layer, self.heads)
            yield self._attention_block(at, "cross_attn", "q", cross)
            yield self._feed_forward_block(at)

    def cross_projections(self, layer: int) -> Linear:
        at = f"{DECODER}.layers.{layer}.cross_attn"
        return Linear.named(f"{at}.k_proj", f"{at}.v_proj")

    def sight_of(self, window: int) -> Sight:
        return Sight(window, window)

    def head_norms(self, attention: str) -> HeadNorms | None:
        return None

    def encoder_embedding(
        self, g: Graph, tokens: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        rows = number_format.table(g, tokens, f"{ENCODER}.embed_tokens.weight")
        return g.op.Mul(rows, g.constant(self.source.width**0.5, np.float32))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{ENCODER}.embed_tokens.weight", (self.source.vocab_size, self.source.width)
        for name in self.tables:
            yield name, (self.vocab_size, self.width)
        for block in self.encoder_blocks():
            yield from block.shapes(self.source.width)
        for block in self.decoder_blocks():
            yield from block.shapes(self.width)
        for layer in range(self.layers):
            for name in self.cross_projections(layer).weights:
                yield name, (self.heads.kv_count * self.heads.size, self.source.width)


def _gemma2(part: Mapping[str, Any], label: str) -> Gemma2:
    """The shape of the encoder or the decoder, from its config."""
    own = {key: value for key, value in part.items() if key not in OF_PARTS}
    return Gemma2.from_config({**own, "model_type": "gemma2"}, label)
