"""Decoder-only models: an embedding, layers of blocks, a norm and a head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.blocks.block import Block, EmitContext
from edgespec_export.components.layer_outputs import emit_layer_outputs
from edgespec_export.components.norms.norm import Norm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.positions import Positions, decoder_positions, requested_rows
from edgespec_export.families.family import Family
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["MAX_POSITIONS", "DecoderOnly"]

MAX_DEFAULT_CAPACITY = 8192
# The tables of positions grow with their number, to 577 MB for the million that Mistral-Nemo's
# config states. A cache for a million positions is too large for any device: Nemo's needs 43 GB.
MAX_POSITIONS = 131072


@dataclass(frozen=True, kw_only=True)
class DecoderOnly(Family):
    """A decoder-only model; a family of them says what its blocks are.

    Attributes:
        positions: how many the graphs can tell apart: the model's, up to `MAX_POSITIONS`.
        logit_cap: of the logits' tanh; None if they have no cap.
        shows_last_state: the graph shows a draft the norm of its last hidden state.
        read_layers: the layers whose output the graph shows to an EAGLE head, counted from 1.
    """

    transformers_class: ClassVar[str | None] = "AutoModelForCausalLM"

    positions: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    logit_cap: float | None = None
    shows_last_state: bool = False
    read_layers: tuple[int, ...] = ()

    @abstractmethod
    def layer(self, index: int) -> tuple[Block, ...]:
        """The blocks of one layer, in order."""

    @property
    @abstractmethod
    def last_norm(self) -> Norm:
        """The norm before the head."""

    @abstractmethod
    def encodings(self, g: Graph, positions: Positions) -> Sequence[PositionEncoding | None]:
        """What tells the attention of each layer the positions of a call's rows; None of a layer
        without attention."""

    def embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        """The first values of the residual stream, [m, width]."""
        return number_format.table(g, tokens, self.table)

    def layer_inputs(
        self, g: Graph, tokens: ir.Value, x: ir.Value, number_format: NumberFormat
    ) -> Sequence[ir.Value]:
        """What each layer reads of the tokens besides the residual stream, [m, size] each; most
        models have none.

        Args:
            x: the first values of the residual stream, [m, width].
        """
        return ()

    @property
    def knows_layouts(self) -> bool:
        """Whether all that the graph keeps of a row is kept where a layout says."""
        return True

    @property
    def is_recurrent(self) -> bool:
        """Whether some of its layers have states."""
        return False

    @property
    def capacity(self) -> int:
        return min(self.positions, MAX_DEFAULT_CAPACITY)

    @property
    def features(self) -> int:
        return self.width if self.shows_last_state else len(self.read_layers) * self.width

    def with_last_state(self) -> Self:
        """The same model that also outputs the norm of its last hidden state."""
        return replace(self, shows_last_state=True)

    def with_layer_outputs(self, layers: Sequence[int]) -> Self | None:
        if not all(1 <= layer <= self.layers for layer in layers):
            return None
        return replace(self, read_layers=tuple(layers))

    def blocks(self) -> Iterator[Block]:
        for index in range(self.layers):
            yield from self.layer(index)

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the decoder graph."""
        tokens, positions = decoder_positions(
            g,
            layouts=self.knows_layouts and attention.supports_layouts,
            states=self.is_recurrent,
        )
        x = self.embedding(g, tokens, positions, number_format)
        inputs = self.layer_inputs(g, tokens, x, number_format)
        after = self.through_layers(g, x, positions, number_format, attention, inputs)
        self.emit_logits(g, after[-1], number_format)
        if self.shows_last_state:
            last = self.last_norm.emit(g, number_format.unrotated(g, after[-1], self.width))
            g.output(graph_io.FEATURES, last, np.float32, ["m", self.features])
        else:
            emit_layer_outputs(g, after, self.read_layers, self.width, number_format)

    def through_layers(
        self,
        g: Graph,
        x: ir.Value,
        positions: Positions,
        number_format: NumberFormat,
        attention: Attention,
        layer_inputs: Sequence[ir.Value] = (),
    ) -> list[ir.Value]:
        """The residual stream [m, width] after each layer."""
        after = []
        for index, encoding in enumerate(self.encodings(g, positions)):
            context = EmitContext(number_format, attention, positions, encoding, layer_inputs)
            x = self.through_layer(g, x, index, context)
            after.append(x)
        return after

    def through_layer(self, g: Graph, x: ir.Value, index: int, context: EmitContext) -> ir.Value:
        """The residual stream [m, width] after one layer, whose blocks follow each other."""
        for block in self.layer(index):
            x = block.emit(g, x, context)
        return x

    def emit_logits(self, g: Graph, x: ir.Value, number_format: NumberFormat) -> None:
        """Emits the graph's output of logits, from the residual stream after the last layer."""
        rows = requested_rows(g, x)
        head = OutputHead(self.tables[-1], self.last_norm, cap=self.logit_cap)
        logits = self.after_head(g, number_format.head(g, rows, head))
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])

    def after_head(self, g: Graph, logits: ir.Value) -> ir.Value:
        """Logits [rows, vocab_size] with what a model adds to its head's; most add nothing."""
        return logits
