"""T5: v1.0 (relu, tied head), v1.1 and flan-t5 (gated gelu, own head), mT5, ByT5, MADLAD-400.

Raffel et al. (2020, arXiv 1910.10683).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import (
    AttentionBlock,
    Block,
    FeedForwardBlock,
    Mixer,
)
from edgespec_export.components.blocks.feed_forward import Gate, Ungated
from edgespec_export.components.blocks.self_attention import (
    CrossAttention,
    EncoderAttention,
    SelfAttention,
)
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.positions import Positions, RelativeBias
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.encoder_decoder import EncoderDecoder
from edgespec_export.families.model_config import ACTIVATIONS, Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["T5"]

# The matrices themselves have d_ff, and distances are bucketed, however many positions.
HARMLESS = {"d_ff", "n_positions"}


@dataclass(frozen=True, kw_only=True)
class T5(EncoderDecoder):
    """The shape of a T5 and how it differs from others.

    Attributes:
        gated: the feed-forward multiplies two projections.
        scale_outputs: decoder outputs are scaled by width^-½ before the head (v1.0).
        buckets, max_distance: of the relative position bias.
        outputs_encoder: the encoder graph also returns its states, for a draft that reads them.
    """

    family = "t5"
    model_types: ClassVar[tuple[str, ...]] = ("t5", "mt5")
    table, head = "shared.weight", "lm_head.weight"
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    # Copies of the embedding, and a bias that old checkpoints contain and no attention reads.
    redundant = re.compile(
        r"(encoder|decoder)\.embed_tokens\.weight|lm_head\.weight"
        r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    )
    activation: str
    gated: bool
    scale_outputs: bool
    buckets: int
    max_distance: int
    outputs_encoder: bool = False

    @property
    def capacity(self) -> int:
        """The length of its training texts; distances are bucketed, so there is no limit."""
        return 512

    def with_encoder_output(self) -> Self:
        return replace(self, outputs_encoder=True)

    def with_layer_outputs(self, layers: Sequence[int]) -> Self | None:
        if not all(1 <= layer <= self.layers for layer in layers):
            return None
        return replace(self, read_layers=tuple(layers))

    @property
    def features(self) -> int:
        return self.width if self.outputs_encoder else len(self.read_layers) * self.width

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls(**cls.fields_of(config, config.get("model_type"), label))
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    @staticmethod
    def fields_of(config: Config, kind: str, label: str) -> dict[str, Any]:
        """The fields of a T5 of one of the `model_types`; keys left over are not refused."""
        feed_forward = config.get("feed_forward_proj", "relu")
        gated = feed_forward.startswith("gated-")
        dense = feed_forward.removeprefix("gated-")
        if dense not in ACTIVATIONS:
            names = [prefix + name for prefix in ("", "gated-") for name in ACTIVATIONS]
            config.must_be("feed_forward_proj", *names)
        dense = ACTIVATIONS[dense]
        used = "gelu_new" if feed_forward == "gated-gelu" else dense
        config.must_be("is_gated_act", gated)
        config.must_be("dense_act_fn", *(name for name in ACTIVATIONS if ACTIVATIONS[name] == used))
        config.must_be("is_encoder_decoder", True)
        config.must_be("is_decoder", False)
        tied = config.flag("tie_word_embeddings", True)
        heads, layers = config.count("num_heads"), config.count("num_layers")
        vocab_size = config.count("vocab_size")
        start_token = config.get("decoder_start_token_id", config.get("pad_token_id", 0))
        if type(start_token) is not int or not 0 <= start_token < vocab_size:
            raise ValueError(f"decoder_start_token_id is {start_token!r}")
        return {
            "label": label,
            "vocab_size": vocab_size,
            "width": config.count("d_model"),
            "encoder_layers": layers,
            "layers": config.count("num_decoder_layers", layers),
            "heads": Heads(heads, heads, config.count("d_kv"), scale=1.0),
            "epsilon": config.number("layer_norm_epsilon", 1e-6),
            "activation": used,
            "gated": gated,
            "scale_outputs": config.flag("scale_decoder_outputs", tied) and kind in ("t5", "umt5"),
            "tied_head": tied,
            "buckets": config.count("relative_attention_num_buckets", 32),
            "max_distance": config.count("relative_attention_max_distance", 128),
            "start_token": start_token,
        }

    def view(self, weights: Weights) -> Weights:
        return _WithTable(weights, self.table, self.copies)

    def emit_encoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        x = self.emit_source(g, number_format, attention)
        if self.outputs_encoder:
            states = number_format.unrotated(g, x, self.width)
            g.output(graph_io.FEATURES, g.op.Identity(states), np.float32, ["source", self.width])

    def encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        bias = self.bias("encoder", 0)
        return bias.emit(g, bias.distances_of_encoder(g, tokens))

    def decoder_encoding(self, g: Graph, positions: Positions) -> ir.Value:
        bias = self.bias("decoder", 0)
        return bias.emit(g, bias.distances_of_decoder(g, positions))

    def logits(
        self, g: Graph, rows: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        head = OutputHead(self.tables[-1], self.last_norm, self.head_factor)
        return number_format.head(g, rows, head)

    @property
    def last_norm(self) -> RmsNorm:
        """The norm before the head."""
        return self._norm("decoder.final_layer_norm")

    @property
    def head_factor(self) -> float:
        """What the norm's result is multiplied by before the head."""
        return self.width**-0.5 if self.scale_outputs else 1.0

    @property
    def encoder_norm(self) -> RmsNorm:
        return self._norm("encoder.final_layer_norm")

    def encoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.encoder_layers):
            at = f"encoder.block.{layer}.layer"
            attention = self.encoder_attention(layer)
            yield self._attention_block(f"{at}.0", "SelfAttention", "qkv", attention)
            yield self._feed_forward_block(f"{at}.1")

    def decoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.layers):
            at = f"decoder.block.{layer}.layer"
            attention = self.decoder_attention(layer)
            yield self._attention_block(f"{at}.0", "SelfAttention", "qkv", attention)
            cross = CrossAttention(layer, self.heads)
            yield self._attention_block(f"{at}.1", "EncDecAttention", "q", cross)
            yield self._feed_forward_block(f"{at}.2")

    def encoder_attention(self, layer: int) -> Mixer:
        """The self-attention of an encoder layer."""
        return EncoderAttention(self.heads)

    def decoder_attention(self, layer: int) -> Mixer:
        """The self-attention of a decoder layer."""
        return SelfAttention(layer, self.heads)

    def _attention_block(self, at: str, kind: str, reads: str, mixer: Mixer) -> AttentionBlock:
        name = f"{at}.{kind}"
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.layer_norm"),
            in_proj=Linear.named(*(f"{name}.{part}" for part in reads)),
            mixer=mixer,
            out_proj=Linear.named(f"{name}.o"),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.DenseReluDense"
        parts = ("wi_0", "wi_1") if self.gated else ("wi",)
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.layer_norm"),
            in_proj=Linear.named(*(f"{name}.{part}" for part in parts)),
            activation=Gate(self.activation) if self.gated else Ungated(self.activation),
            out_proj=Linear.named(f"{name}.wo"),
        )

    def cross_projections(self, layer: int) -> Linear:
        """The matrices of a decoder layer that read the encoder's result."""
        at = f"decoder.block.{layer}.layer.1.EncDecAttention"
        return Linear.named(f"{at}.k", f"{at}.v")

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)

    def bias(self, stack: str, layer: int) -> RelativeBias:
        """The relative bias that a layer of the encoder or the decoder has a table of."""
        table = f"{stack}.block.{layer}.layer.0.SelfAttention.relative_attention_bias.weight"
        return RelativeBias(table, self.buckets, self.max_distance, both_ways=stack == "encoder")

    def biases(self) -> Iterator[RelativeBias]:
        """All that the checkpoint has: those of the first layers serve the others, too."""
        yield self.bias("encoder", 0)
        yield self.bias("decoder", 0)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for bias in self.biases():
            yield bias.table, (self.buckets, self.heads.count)
        yield from super().shapes()

    def residual_stream(self) -> ResidualStream:
        """Both streams start from the same table; cross-attention reads the encoder's."""
        stream = super().residual_stream()
        norm = self.encoder_norm.weight
        cross = {
            name: norm
            for layer in range(self.layers)
            for name in self.cross_projections(layer).weights
        }
        return replace(stream, readers={**stream.readers, **cross})


class _WithTable:
    """The checkpoint with its embedding's name, where it holds the embedding by a copy's name only.

    transformers finds it there, too.
    """

    def __init__(self, weights: Weights, table: str, copies: Sequence[str]) -> None:
        self._weights = weights
        names = list(weights.names())
        holders = [name for name in (table, *copies) if name in names]
        self._stored = {table: holders[0]} if holders else {}

    def names(self) -> list[str]:
        return sorted({*self._weights.names(), *self._stored})

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(self._stored.get(name, name))

    def read(self, name: str) -> npt.NDArray[np.generic]:
        return self._weights.read(self._stored.get(name, name))
