"""BART: an encoder-decoder with norms after the sums, learned positions and biases everywhere.

Lewis et al. (2019, arXiv 1910.13461). Greedy and sampled texts only, no beams. The tokens that its
generation settings force or ban are part of its distribution (`TokenMasks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import (
    AttentionBlock,
    Block,
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
from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.bart.completed_weights import (
    LOGIT_BIAS,
    PREFIX,
    CompletedWeights,
    position_table,
)
from edgespec_export.families.bart.token_masks import TokenMasks
from edgespec_export.families.encoder_decoder import EncoderDecoder
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Bart"]

EPSILON = 1e-5  # of every norm; no config names it
HARMLESS = {
    "_num_labels",
    "activation_dropout",
    "classif_dropout",
    "decoder_ffn_dim",  # the matrices themselves have it
    "decoder_layerdrop",
    "dropout",
    "encoder_ffn_dim",
    "encoder_layerdrop",
    "extra_pos_embeddings",  # rows before that of position 0; OPUS-MT has none
    "force_bos_token_to_be_generated",  # older than forced_bos_token_id, and read by nothing
    "init_std",
    "num_hidden_layers",  # another name of encoder_layers
    "num_attention_heads",
    "replacing_rate",
    "student_decoder_layers",
    "student_encoder_layers",
    # How transformers generates from a checkpoint without a generation config.
    "early_stopping",
    "forced_eos_token_id",  # only at the greatest length, where a text is cut
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beams",
    "prefix",
}


@dataclass(frozen=True, kw_only=True)
class Bart(EncoderDecoder):
    """The shape of a BART.

    Attributes:
        legacy: what old configs say about all models of this family.
        position_offset: rows of the tables of positions before that of position 0.
        activation: of the feed-forward.
        embedding_scale: what embeddings are multiplied by.
        masks: the tokens that are forced or banned.
    """

    family = "bart"
    model_types: ClassVar[tuple[str, ...]] = ("bart",)
    table, head = f"{PREFIX}shared.weight", "lm_head.weight"
    copies = (f"{PREFIX}encoder.embed_tokens.weight", f"{PREFIX}decoder.embed_tokens.weight")
    redundant = re.compile(
        r"model\.(encoder|decoder)\.(embed_tokens\.weight|version)|lm_head\.weight"
    )
    applied_settings = TokenMasks.settings
    legacy: ClassVar[Mapping[str, bool]] = {
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "do_blenderbot_90_layernorm": False,
        "normalize_before": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    }
    position_offset: ClassVar[int] = 2

    positions: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    activation: str
    embedding_scale: float
    masks: TokenMasks

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        width, heads = config.count("d_model", 1024), config.count("decoder_attention_heads", 16)
        size = width // heads
        vocab_size = config.count("vocab_size")
        shape = cls(
            label=label,
            vocab_size=vocab_size,
            width=width,
            layers=config.count("decoder_layers", 12),
            encoder_layers=config.count("encoder_layers", 12),
            heads=Heads(heads, heads, size, scale=size**-0.5),
            epsilon=EPSILON,
            activation=config.activation("activation_function", "gelu"),
            embedding_scale=width**0.5 if config.flag("scale_embedding", False) else 1.0,
            tied_head=config.flag("tie_word_embeddings", True),
            positions=config.count("max_position_embeddings", 1024),
            start_token=config.need("decoder_start_token_id"),
            masks=TokenMasks.of(values, vocab_size, label),
        )
        if type(shape.start_token) is not int or not 0 <= shape.start_token < vocab_size:
            raise ValueError(f"decoder_start_token_id is {shape.start_token!r}")
        if heads * size != width or size % 2:
            raise ValueError(f"d_model is {width}, with {heads} heads")
        config.must_be("encoder_attention_heads", heads)
        config.must_be("is_encoder_decoder", True)
        config.must_be("is_decoder", False)
        config.must_be("share_encoder_decoder_embeddings", True)
        config.must_be("decoder_vocab_size", vocab_size)
        if cls.position_offset:
            config.must_be("extra_pos_embeddings", cls.position_offset)
        for key, value in cls.legacy.items():
            config.must_be(key, value)
        config.refuse_the_rest(harmless=HARMLESS | TokenMasks.settings)
        return shape

    def with_generation_settings(self, settings: Mapping[str, Any]) -> Self:
        """transformers takes them from the config only where there is no generation config."""
        if not settings:
            return self
        return replace(self, masks=TokenMasks.of(settings, self.vocab_size, self.label))

    @property
    def capacity(self) -> int:
        return self.positions

    def view(self, weights: Weights) -> Weights:
        return CompletedWeights(weights, self.left_out())

    def left_out(self) -> dict[str, Callable[[], npt.NDArray[np.float32]]]:
        """Makes the tensors that a checkpoint may lack, by their names."""
        return {LOGIT_BIAS: lambda: np.zeros(self.vocab_size, np.float32)}

    # --- blocks ---

    def encoder_blocks(self) -> Iterator[Block]:
        attention = EncoderAttention(self.heads)
        for layer in range(self.encoder_layers):
            at = f"{PREFIX}encoder.layers.{layer}"
            yield self._attention_block(at, "self_attn", "qkv", attention)
            yield self._feed_forward_block(at)

    def decoder_blocks(self) -> Iterator[Block]:
        for layer in range(self.layers):
            at = f"{PREFIX}decoder.layers.{layer}"
            attention = SelfAttention(layer, self.heads)
            yield self._attention_block(at, "self_attn", "qkv", attention)
            cross = CrossAttention(layer, self.heads)
            yield self._attention_block(at, "encoder_attn", "q", cross)
            yield self._feed_forward_block(at)

    def _attention_block(self, at: str, kind: str, reads: str, mixer: Mixer) -> AttentionBlock:
        name, norm = f"{at}.{kind}", self._norm(f"{at}.{kind}_layer_norm")
        return AttentionBlock(
            name=name,
            norm=self.before(norm),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in reads), bias=True),
            mixer=mixer,
            out_proj=Linear.named(f"{name}.out_proj", bias=True),
            sum_norm=self.after(norm),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        norm = self._norm(f"{at}.final_layer_norm")
        return FeedForwardBlock(
            name=f"{at}.fc1",
            norm=self.before(norm),
            in_proj=Linear.named(f"{at}.fc1", bias=True),
            activation=Ungated(self.activation),
            out_proj=Linear.named(f"{at}.fc2", bias=True),
            sum_norm=self.after(norm),
        )

    def cross_projections(self, layer: int) -> Linear:
        at = f"{PREFIX}decoder.layers.{layer}.encoder_attn"
        return Linear.named(f"{at}.k_proj", f"{at}.v_proj", bias=True)

    # --- norms ---

    def before(self, norm: LayerNorm) -> Norm:
        """A block's norm of what it reads, if that is where its norm is."""
        return NoNorm()

    def after(self, norm: LayerNorm) -> Norm:
        """A block's norm of the sum, if that is where its norm is."""
        return norm

    def stack_norm(self, stack: str) -> Norm:
        """The norm after the last layer of the encoder or the decoder."""
        return NoNorm()

    def embedding_norm(self, stack: str) -> Norm:
        """The norm of the embeddings of the encoder or the decoder."""
        return self._norm(f"{PREFIX}{stack}.layernorm_embedding")

    @property
    def encoder_norm(self) -> Norm:
        return self.stack_norm("encoder")

    def _norm(self, name: str) -> LayerNorm:
        return LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)

    # --- positions and logits ---

    def encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """Attention knows no positions: a bias of 0."""
        length = g.op.Shape(tokens)
        shape = g.op.Concat(g.ints(1, self.heads.count), length, length, axis=0)
        return g.op.Expand(g.constant(0, np.float32), shape)

    def decoder_encoding(self, g: Graph, positions: Positions) -> Angles:
        """Attention knows no positions: it rotates by angles of 0."""
        frequencies = np.zeros(self.heads.size // 2, np.float32)
        return Rotary(frequencies, self.positions).emit(g, positions)

    def encoder_embedding(
        self, g: Graph, tokens: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        return self._embedding(g, "encoder", tokens, self.encoder_rows(g, tokens), number_format)

    def decoder_embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        # A padded call may have one row after the last position.
        queries = positions.limited(g, self.positions - 1)
        rows = self.decoder_rows(g, tokens, queries)
        return self._embedding(g, "decoder", tokens, rows, number_format)

    def encoder_rows(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """Each source token's row of the table of positions, [source]."""
        length = g.op.Reshape(g.op.Shape(tokens), g.constant([], np.int64))
        positions = g.op.Range(g.constant(0, np.int64), length, g.constant(1, np.int64))
        return g.op.Add(positions, g.constant(self.position_offset, np.int64))

    def decoder_rows(self, g: Graph, tokens: ir.Value, queries: ir.Value) -> ir.Value:
        """The rows of the table of positions for tokens at positions `queries`, [m]."""
        return g.op.Add(queries, g.constant(self.position_offset, np.int64))

    def _embedding(
        self, g: Graph, stack: str, tokens: ir.Value, rows: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        """The norm of the tokens' rows plus those of their positions."""
        x = number_format.table(g, tokens, self.table)
        if self.embedding_scale != 1:
            x = g.op.Mul(x, g.constant(self.embedding_scale, np.float32))
        x = g.op.Add(x, g.op.Gather(g.weight(position_table(stack)), rows, axis=0))
        return self.embedding_norm(stack).emit(g, x)

    def logits(
        self, g: Graph, rows: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        head = OutputHead(self.tables[-1], self.stack_norm("decoder"))
        logits = number_format.head(g, rows, head)
        # Not `Add`: see `add_biases`.
        logits = g.op.Sum(logits, g.weight(LOGIT_BIAS))
        return self.masks.emit(g, logits, positions)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        yield LOGIT_BIAS, (self.vocab_size,)
        for stack in ("encoder", "decoder"):
            yield position_table(stack), (self.positions + self.position_offset, self.width)
