"""Whisper: an encoder of sound, a decoder of text with learned positions, layer norms with biases.

The encoder graph reads 30 seconds of sound as a log-mel spectrogram and computes the
cross-attention keys and values of every decoder layer; the decoder graph does the rest, for any
number of positions. Radford et al. (2022, arXiv 2212.04356).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.alignment_heads import alignment_heads
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.aligning_attention import Aligning
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.cross_attention import cross_outputs
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import (
    AttentionBlock,
    Block,
    EmitContext,
    FeedForwardBlock,
    Mixer,
)
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.blocks.self_attention import (
    CrossAttention,
    EncoderAttention,
    SelfAttention,
)
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.layer_norm import LayerNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.positions import (
    NO_LAYOUTS,
    Positions,
    Rotary,
    decoder_positions,
    requested_rows,
)
from edgespec_export.families.family import Family, Sound
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import activation

__all__ = ["Whisper"]

ENCODER, DECODER = "model.encoder", "model.decoder"
KERNEL = 3  # frames that each convolution sees
STRIDE = 2  # of the second one: two frames are one position
DECODER_BLOCKS = 3  # of a layer: two of attention and a feed-forward
HARMLESS = {
    *("activation_dropout", "dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std"),
    *("apply_spec_augment", "mask_time_prob", "mask_time_length", "mask_time_min_masks"),
    *("mask_feature_prob", "mask_feature_length", "mask_feature_min_masks"),
    *("classifier_proj_size", "use_weighted_layer_sum"),  # of a model that classifies sounds
    # Generation: rules on tokens come from generation_config.json, the mask is the reader's.
    *("forced_decoder_ids", "suppress_tokens", "begin_suppress_tokens", "max_length"),
    *("median_filter_width", "num_hidden_layers"),
}


@dataclass(frozen=True, kw_only=True)
class Whisper(Family):
    """The shape of a Whisper.

    Attributes:
        mel_bins: bands of the spectrogram.
        source: positions of the encoder, each of `STRIDE` frames.
        decoder_heads: of the decoder; `heads` are the encoder's.
        feed_forward_width, decoder_feed_forward_width: width of the feed-forward in encoder and
            decoder.
        activation: of the feed-forward.
        alignment_heads: layer and head of the decoder's cross-attention that follow the sound;
            empty if they are not known.
    """

    family = "whisper"
    model_types: ClassVar[tuple[str, ...]] = ("whisper",)
    transformers_class: ClassVar[str | None] = "WhisperForConditionalGeneration"
    table, head = f"{DECODER}.embed_tokens.weight", "proj_out.weight"
    redundant = re.compile(r"proj_out\.weight")  # a copy of a tied head
    applied_settings: ClassVar[frozenset[str]] = frozenset({"alignment_heads"})

    encoder_layers: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    positions: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    start_token: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    mel_bins: int
    source: int
    encoder_heads: Heads
    feed_forward_width: int
    encoder_feed_forward_width: int
    activation: str
    alignment_heads: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        width = config.count("d_model", 384)

        def heads(stack: str) -> Heads:
            count = config.count(f"{stack}_attention_heads", 6)
            return Heads(count, count, width // count, scale=(width // count) ** -0.5)

        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 51865),
            width=width,
            layers=config.count("decoder_layers", 4),
            encoder_layers=config.count("encoder_layers", 4),
            heads=heads("decoder"),
            encoder_heads=heads("encoder"),
            feed_forward_width=config.count("decoder_ffn_dim", 1536),
            encoder_feed_forward_width=config.count("encoder_ffn_dim", 1536),
            epsilon=1e-5,  # no config names another
            activation=config.activation("activation_function", "gelu"),
            tied_head=config.flag("tie_word_embeddings", True),
            positions=config.count("max_target_positions", 448),
            source=config.count("max_source_positions", 1500),
            mel_bins=config.count("num_mel_bins", 80),
            start_token=config.get("decoder_start_token_id", 50257),
        )
        config.must_be("scale_embedding", False)
        config.must_be("is_encoder_decoder", True)
        config.refuse_the_rest(harmless=HARMLESS)
        if type(shape.start_token) is not int or not 0 <= shape.start_token < shape.vocab_size:
            raise ValueError(f"decoder_start_token_id is {shape.start_token!r}")
        return shape

    def with_generation_settings(self, settings: Mapping[str, Any]) -> Self:
        listed = settings.get("alignment_heads")
        return replace(
            self,
            alignment_heads=alignment_heads(listed, self.layers, self.heads.count, self.label),
        )

    def without_alignment(self) -> Self:
        return replace(self, alignment_heads=())

    @property
    def sound(self) -> Sound:
        return Sound(self.mel_bins, STRIDE * self.source)

    @property
    def capacity(self) -> int:
        return self.positions

    @property
    def graphs(self) -> tuple[str, ...]:
        alignment = (graph_io.ALIGNMENT,) if self.alignment_heads else ()
        return (graph_io.ENCODER, graph_io.DECODER, *alignment)

    def view(self, weights: Weights) -> Weights:
        return _WithKeyBiases(weights)

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""
        if g.name == graph_io.ALIGNMENT:
            self._alignment(g, number_format)
            return
        {graph_io.ENCODER: self._encoder, graph_io.DECODER: self._decoder}[g.name](
            g, number_format, attention
        )

    def _encoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        sound = g.input(graph_io.LOG_MEL, np.float32, [self.mel_bins, STRIDE * self.source])
        x = g.op.Unsqueeze(sound, g.ints(0))
        for name, stride in (("conv1", 1), ("conv2", STRIDE)):
            at = f"{ENCODER}.{name}"
            x = g.op.Conv(
                x,
                g.weight(f"{at}.weight"),
                g.weight(f"{at}.bias"),
                kernel_shape=[KERNEL],
                pads=[1, 1],
                strides=[stride],
            )
            x = activation(g, x, "gelu")
        x = g.op.Transpose(g.op.Squeeze(x, g.ints(0)), perm=[1, 0])
        x = g.op.Add(x, g.weight(f"{ENCODER}.embed_positions.weight"))
        context = EmitContext(number_format, attention, positions=None, encoding=None)
        for block in self._encoder_blocks():
            x = block.emit(g, x, context)
        linears = [self._cross_projections(layer) for layer in range(self.layers)]
        crossed = number_format.normed_linears(g, x, self._norm(f"{ENCODER}.layer_norm"), linears)
        for layer, parts in enumerate(crossed):
            cross_outputs(g, self.heads, layer, parts)

    def _decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(
            g, layouts=attention.supports_layouts, sources=attention.supports_sources
        )
        x, context = self._read(g, number_format, attention, tokens, positions)
        for block in self._decoder_blocks():
            x = block.emit(g, x, context)
        rows = requested_rows(g, x)
        norm = self._norm(f"{DECODER}.layer_norm")
        logits = number_format.head(g, rows, OutputHead(self.tables[-1], norm))
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])

    def _alignment(self, g: Graph, number_format: NumberFormat) -> None:
        """A whole text at once, up to the last layer that has a head which follows the sound."""
        tokens = g.input(graph_io.TOKENS, np.int64, ["m"])
        positions = Positions(g, tokens, g.ints(0), g.constant(NO_LAYOUTS, np.int64))
        attention = Aligning(self.alignment_heads)
        x, context = self._read(g, number_format, attention, tokens, positions)
        last = max(layer for layer, _ in self.alignment_heads)
        blocks = DECODER_BLOCKS * (last + 1) - 1  # without the last feed-forward
        for block in islice(self._decoder_blocks(), blocks):
            x = g.op.Add(x, block.added(g, x, context))  # nothing is fused
        shape: list[int | str] = [len(self.alignment_heads), "m", "source"]
        g.output(graph_io.ALIGNMENT, attention.shares(g), np.float32, shape)

    def _read(
        self,
        g: Graph,
        number_format: NumberFormat,
        attention: Attention,
        tokens: ir.Value,
        positions: Positions,
    ) -> tuple[ir.Value, EmitContext]:
        """What the decoder's first block reads, and what all of them share."""
        x = g.op.Add(number_format.table(g, tokens, self.table), self._learned(g, positions))
        # Attention knows no positions: it rotates by angles of 0.
        angles = Rotary(np.zeros(self.heads.size // 2, np.float32), self.positions)
        return x, EmitContext(number_format, attention, positions, angles.emit(g, positions))

    def _learned(self, g: Graph, positions: Positions) -> ir.Value:
        """The position table's rows, [m, width]."""
        # A padded call may have one row after the last position.
        rows = positions.limited(g, self.positions - 1)
        return g.op.Gather(g.weight(f"{DECODER}.embed_positions.weight"), rows, axis=0)

    def blocks(self) -> Iterator[Block]:
        yield from self._encoder_blocks()
        yield from self._decoder_blocks()

    def _encoder_blocks(self) -> Iterator[Block]:
        attention = EncoderAttention(self.encoder_heads)
        for layer in range(self.encoder_layers):
            at = f"{ENCODER}.layers.{layer}"
            yield self._attention_block(at, "self_attn", "qkv", attention)
            yield self._feed_forward_block(at)

    def _decoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.layers):
            at = f"{DECODER}.layers.{layer}"
            yield self._attention_block(at, "self_attn", "qkv", SelfAttention(layer, self.heads))
            yield self._attention_block(at, "encoder_attn", "q", CrossAttention(layer, self.heads))
            yield self._feed_forward_block(at)

    def _attention_block(self, at: str, kind: str, reads: str, mixer: Mixer) -> AttentionBlock:
        name = f"{at}.{kind}"
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{name}_layer_norm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in reads), bias=True),
            mixer=mixer,
            out_proj=Linear.named(f"{name}.out_proj", bias=True),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        return FeedForwardBlock(
            name=f"{at}.mlp",
            norm=self._norm(f"{at}.final_layer_norm"),
            in_proj=Linear.named(f"{at}.fc1", bias=True),
            activation=Ungated(self.activation),
            out_proj=Linear.named(f"{at}.fc2", bias=True),
        )

    def _cross_projections(self, layer: int) -> Linear:
        """The matrices of a decoder layer that read the encoder's result."""
        at = f"{DECODER}.layers.{layer}.encoder_attn"
        return Linear.named(f"{at}.k_proj", f"{at}.v_proj", bias=True)

    def _norm(self, name: str) -> LayerNorm:
        return LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{ENCODER}.conv1.weight", (self.width, self.mel_bins, KERNEL)
        yield f"{ENCODER}.conv2.weight", (self.width, self.width, KERNEL)
        yield f"{ENCODER}.embed_positions.weight", (self.source, self.width)
        yield f"{DECODER}.embed_positions.weight", (self.positions, self.width)
        yield from super().shapes()
        for stack, layers, feed_forward_width in (
            (ENCODER, self.encoder_layers, self.encoder_feed_forward_width),
            (DECODER, self.layers, self.feed_forward_width),
        ):
            for layer in range(layers):
                yield f"{stack}.layers.{layer}.fc1.weight", (feed_forward_width, self.width)
        for layer in range(self.layers):
            for name in self._cross_projections(layer).weights:
                yield name, (self.heads.count * self.heads.size, self.width)


class _WithKeyBiases:
    """The checkpoint with a bias of 0 for keys, which have none: projections that are one product
    then have one bias."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._added = {
            name.replace("q_proj", "k_proj"): name
            for name in weights.names()
            if name.endswith("q_proj.bias")
        }

    def names(self) -> list[str]:
        return sorted([*self._weights.names(), *self._added])

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(self._added.get(name, name))

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name in self._added:
            return np.zeros(self.shape(name), np.float32)
        return self._weights.read(name)
