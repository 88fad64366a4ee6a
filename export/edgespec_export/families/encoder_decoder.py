"""Encoder-decoder models: two graphs, two stacks of layers.

The encoder graph computes the cross-attention keys and values of every decoder layer from the
source; the decoder graph does the rest, for any number of positions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.attention.cross_attention import cross_outputs
from edgespec_export.components.blocks.block import Block, EmitContext
from edgespec_export.components.layer_outputs import emit_layer_outputs
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions, decoder_positions, requested_rows
from edgespec_export.families.family import Family
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["EncoderDecoder"]


@dataclass(frozen=True, kw_only=True)
class EncoderDecoder(Family):
    """An encoder-decoder; a family of them says what its blocks are.

    Attributes:
        read_layers: the decoder's layers whose output its graph shows to an EAGLE head, counted
            from 1.
    """

    transformers_class: ClassVar[str | None] = "AutoModelForSeq2SeqLM"

    encoder_layers: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    start_token: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    read_layers: tuple[int, ...] = ()

    @abstractmethod
    def encoder_blocks(self) -> Iterator[Block]:
        """The blocks of every encoder layer, in order."""

    @abstractmethod
    def decoder_blocks(self) -> Iterator[Block]:
        """The blocks of every decoder layer, in order."""

    @abstractmethod
    def cross_projections(self, layer: int) -> Linear:
        """The matrices of a decoder layer that read the encoder's result: keys, values."""

    @property
    @abstractmethod
    def encoder_norm(self) -> Norm:
        """The norm of the encoder's result."""

    @abstractmethod
    def encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """What is added to the scores of the encoder's attention, [1, heads, source, source]."""

    @abstractmethod
    def decoder_encoding(self, g: Graph, positions: Positions) -> PositionEncoding:
        """What tells the decoder's self-attention the positions of a call's rows."""

    def encoder_embedding(
        self, g: Graph, tokens: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        """The first values of the encoder's residual stream, [source, width]."""
        return number_format.table(g, tokens, self.table)

    def decoder_embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        """The first values of the decoder's residual stream, [m, width]."""
        return number_format.table(g, tokens, self.table)

    @abstractmethod
    def logits(
        self, g: Graph, rows: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        """Logits [rows, vocab_size] of the last rows of a call."""

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.ENCODER, graph_io.DECODER)

    def blocks(self) -> Iterator[Block]:
        yield from self.encoder_blocks()
        yield from self.decoder_blocks()

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""
        {graph_io.ENCODER: self.emit_encoder, graph_io.DECODER: self.emit_decoder}[g.name](
            g, number_format, attention
        )

    def emit_encoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        self.emit_source(g, number_format, attention)

    def emit_source(self, g: Graph, number_format: NumberFormat, attention: Attention) -> ir.Value:
        """Emits the encoder and the outputs that the decoder reads.

        Returns:
            The residual stream [source, width] after the last layer.
        """
        tokens = g.input(graph_io.TOKENS, np.int64, ["source"])
        bias = self.encoder_bias(g, tokens)
        x = self.encoder_embedding(g, tokens, number_format)
        context = EmitContext(number_format, attention, positions=None, encoding=bias)
        for block in self.encoder_blocks():
            x = block.emit(g, x, context)
        linears = [self.cross_projections(layer) for layer in range(self.layers)]
        crossed = number_format.normed_linears(g, x, self.encoder_norm, linears)
        for layer, parts in enumerate(crossed):
            cross_outputs(g, self.heads, layer, self.crossed(g, layer, parts))
        return x

    def crossed(self, g: Graph, layer: int, parts: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """A layer's keys and values of the source [source, kv_count · size] as the decoder reads
        them, from the products of `cross_projections`."""
        return parts

    def emit_decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(
            g, layouts=attention.supports_layouts, sources=attention.supports_sources
        )
        encoding = self.decoder_encoding(g, positions)
        x = self.decoder_embedding(g, tokens, positions, number_format)
        context = EmitContext(number_format, attention, positions, encoding)
        blocks = list(self.decoder_blocks())
        of_layer = len(blocks) // self.layers
        after = []
        for number, block in enumerate(blocks, start=1):
            x = block.emit(g, x, context)
            if number % of_layer == 0:
                after.append(x)
        logits = self.logits(g, requested_rows(g, x), positions, number_format)
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])
        emit_layer_outputs(g, after, self.read_layers, self.width, number_format)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for layer in range(self.layers):
            for name in self.cross_projections(layer).weights:
                yield name, (self.heads.kv_count * self.heads.size, self.width)
