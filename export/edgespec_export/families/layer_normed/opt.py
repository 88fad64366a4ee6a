"""OPT: a decoder with BART's blocks, whose norms come before them, and learned positions.

Zhang et al. (2022, arXiv 2205.01068). OPT-350m has its norms after the sums, and a narrower
embedding with a matrix before the first layer and one after the last; the export multiplies both
into the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.layer_norm import LayerNorm
from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.renamed_tensors import RenamedTensors
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Opt"]

PREFIX = "model.decoder."  # some checkpoints have names without "model."
POSITION_TABLE = f"{PREFIX}embed_positions.weight"
OFFSET = 2  # rows of the table of positions before that of position 0
EPSILON = 1e-5  # of every norm; no config names it
HARMLESS = {
    *("activation_dropout", "dropout", "layerdrop", "init_std", "prefix"),
    *("ffn_dim", "_remove_final_layer_norm"),
}


@dataclass(frozen=True, kw_only=True)
class Opt(DecoderOnly):
    """The shape of an OPT.

    Attributes:
        activation: of the feed-forward.
        has_biases: its matrices have biases.
        norms_first: blocks read a norm; else a norm of each sum follows.
        ends_with_norm: there is a norm before the head.
        table_width: width of the embedding, where it is narrower than the model; else 0.
    """

    family = "opt"
    model_types: ClassVar[tuple[str, ...]] = ("opt",)
    table, head = f"{PREFIX}embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight|model\.decoder\.(version|project_(in|out)\.weight)")

    activation: str
    has_biases: bool
    norms_first: bool
    ends_with_norm: bool
    table_width: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        count, width = config.count("num_attention_heads", 12), config.count("hidden_size", 768)
        size, table_width = width // count, config.count("word_embed_proj_dim", width)
        norms_first = config.flag("do_layer_norm_before", True)
        if count * size != width or size % 2:
            raise ValueError(f"hidden_size is {width}, with {count} heads")
        narrow = table_width != width
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 50272),
            width=width,
            layers=config.count("num_hidden_layers", 12),
            heads=Heads(count, count, size, scale=size**-0.5),
            epsilon=EPSILON,
            activation=config.activation("activation_function", "relu"),
            tied_head=config.flag("tie_word_embeddings", True) and not narrow,
            positions=config.count("max_position_embeddings", 2048),
            has_biases=config.flag("enable_bias", True),
            norms_first=norms_first,
            ends_with_norm=norms_first and not config.flag("_remove_final_layer_norm", False),
            table_width=table_width if narrow else 0,
        )
        config.must_be("layer_norm_elementwise_affine", True)
        config.must_be("is_encoder_decoder", False)
        if narrow:
            config.must_be("tie_word_embeddings", True)
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        named = RenamedTensors(weights, _whole_name)
        return _Widened(named, self.table, self.head) if self.table_width else named

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"{PREFIX}layers.{index}"
        name, biases = f"{at}.self_attn", self.has_biases
        before, after = self._norms(f"{at}.self_attn_layer_norm")
        before_feed_forward, after_feed_forward = self._norms(f"{at}.final_layer_norm")
        return (
            AttentionBlock(
                name=name,
                norm=before,
                in_proj=Linear.named(*(f"{name}.{part}_proj" for part in "qkv"), bias=biases),
                mixer=SelfAttention(index, self.heads),
                out_proj=Linear.named(f"{name}.out_proj", bias=biases),
                sum_norm=after,
            ),
            FeedForwardBlock(
                name=f"{at}.fc1",
                norm=before_feed_forward,
                in_proj=Linear.named(f"{at}.fc1", bias=biases),
                activation=Ungated(self.activation),
                out_proj=Linear.named(f"{at}.fc2", bias=biases),
                sum_norm=after_feed_forward,
            ),
        )

    def _norms(self, name: str) -> tuple[Norm, Norm]:
        """Of what a block reads, and of the sum."""
        norm = LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)
        return (norm, NoNorm()) if self.norms_first else (NoNorm(), norm)

    @property
    def last_norm(self) -> Norm:
        name = f"{PREFIX}final_layer_norm"
        if not self.ends_with_norm:
            return NoNorm()
        return LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)

    def embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        """The row of a token plus the row of its position, both from tables of the checkpoint."""
        # A padded call may have one row after the last position.
        rows = positions.limited(g, self.positions - 1)
        rows = g.op.Add(rows, g.constant(OFFSET, np.int64))
        learned = g.op.Gather(g.weight(POSITION_TABLE), rows, axis=0)
        return g.op.Add(number_format.table(g, tokens, self.table), learned)

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        """Attention knows no positions: it rotates by angles of 0."""
        frequencies = np.zeros(self.heads.size // 2, np.float32)
        return [Rotary(frequencies, self.positions).emit(g, positions)] * self.layers

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        yield POSITION_TABLE, (self.positions + OFFSET, self.width)


def _whole_name(name: str) -> str:
    return f"model.{name}" if name.startswith("decoder.") else name


class _Widened:
    """A checkpoint with a narrow embedding as one with two wide tables.

    The first is the embedding times the matrix before the first layer, the second, the head, the
    embedding times the one after the last.
    """

    def __init__(self, weights: Weights, table: str, head: str) -> None:
        self._weights = weights
        self._table = table
        self._matrices = {table: f"{PREFIX}project_in.weight", head: f"{PREFIX}project_out.weight"}

    def names(self) -> list[str]:
        return sorted({*self._weights.names(), *self._matrices})

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._matrices:
            return self._weights.shape(name)
        return (self._weights.shape(self._table)[0], max(self._weights.shape(self._matrices[name])))

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name not in self._matrices:
            return self._weights.read(name)
        return self.read_rows(name, 0, self.shape(name)[0])

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if name not in self._matrices:
            return read_rows(self._weights, name, start, stop)
        rows = read_rows(self._weights, self._table, start, stop).astype(np.float32)
        matrix = self._weights.read(self._matrices[name]).astype(np.float32)
        return rows @ (matrix.T if name == self._table else matrix)
