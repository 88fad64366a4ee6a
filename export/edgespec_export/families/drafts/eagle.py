"""EAGLE heads: drafts that read the hidden states after some of their target's layers.

A one-layer model predicts well when it sees the target's hidden states. Each position combines the
token there with the target's states one position before. Where the target has none yet, the
head's own hidden state replaces them. Li et al. (2024, arXiv 2401.15077) and, for several
layers, Li et al. (2025, arXiv 2503.01840); docs/decisions/0013-eagle-drafts.md says what
differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions, decoder_positions
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.family import Family
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import KINDS
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["TARGET_TABLES", "Eagle"]

TOKEN, STATE = "join.token", "join.state"
TARGET_TABLES = "target_tables"  # in a config: embedding and head are rows of the target's


@dataclass(frozen=True, kw_only=True)
class Eagle(Llama):
    """A Llama of few layers whose residual stream starts from a token and a state.

    A draft for an encoder-decoder has its target's start token. It has no encoder: it learns of the
    source from its target's states.

    Attributes:
        target_layers: the target's layers whose output it reads, counted from 1.
        target_width: width of their outputs.
    """

    family = "eagle"
    model_types: ClassVar[tuple[str, ...]] = ("eagle",)
    transformers_class = None
    target_inputs = "its target's hidden states (an EAGLE head)"

    target_layers: tuple[int, ...]
    target_width: int

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.FEATURE_FUSION, graph_io.DECODER)

    @property
    def features(self) -> int:
        return len(self.target_layers) * self.target_width

    def prepared_target(self, target: Family) -> Family:
        super().prepared_target(target)
        prepared = target.with_layer_outputs(self.target_layers)
        if prepared is None or target.width != self.target_width:
            raise EdgespecError(
                f"{self.label} reads layers {', '.join(map(str, self.target_layers))} of a "
                f"Llama- or T5-like target of width {self.target_width}, and {target.label} is not "
                "one; pair it with the target it was trained for"
            )
        return prepared

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        config.must_be("layers_of", *Llama.model_types)
        kind = KINDS[config.get("layers_of", "llama")]
        layers = tuple(map(int, config.need("target_layers")))
        if not layers:
            raise ValueError("target_layers names none")
        shape = cls(
            **cls.fields_of(config, kind, label),
            target_layers=layers,
            target_width=int(config.need("target_hidden_size")),
            start_token=config.get("decoder_start_token_id"),  # of an encoder-decoder's draft
        )
        start = shape.start_token
        if start is not None and (type(start) is not int or not 0 <= start < shape.vocab_size):
            raise ValueError(f"decoder_start_token_id is {start!r}")
        config.get(TARGET_TABLES)  # what `own_head` does
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""
        if g.name == graph_io.FEATURE_FUSION:
            self._feature_fusion(g, number_format)
        else:
            self._decoder(g, number_format, attention)

    def _feature_fusion(self, g: Graph, number_format: NumberFormat) -> None:
        """States from the target's features: each layer's are normalised, multiplied and added."""
        features = g.input(graph_io.FEATURES, np.float32, ["m", self.features])
        parts = g.split(features, [self.target_width] * len(self.target_layers))
        norms = [self._norm(f"reader.norms.{index}") for index in range(len(self.target_layers))]
        maps = [
            number_format.down_proj(g, norm.emit(g, part), Linear((name,)))
            for norm, part, name in zip(norms, parts, self._maps, strict=True)
        ]
        states = maps[0] if len(maps) == 1 else g.op.Sum(*maps)
        g.output(graph_io.FUSED_STATES, states, np.float32, ["m", self.width])

    def _decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, layouts=attention.supports_layouts)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        x = self.entering(g, tokens, states, positions, number_format)
        x = self.through_layers(g, x, positions, number_format, attention)[-1]
        self.emit_logits(g, x, number_format)
        self.leaving(g, x, number_format)

    def entering(
        self,
        g: Graph,
        tokens: ir.Value,
        states: ir.Value,
        positions: Positions,
        number_format: NumberFormat,
    ) -> ir.Value:
        """What enters the layers, [m, width]: tokens [m] joined with states [m, width]."""
        joined = []
        for part, x in ((TOKEN, number_format.table(g, tokens, self.table)), (STATE, states)):
            ((y,),) = number_format.normed_linears(
                g, x, self._norm(f"{part}_norm"), [Linear.named(part)]
            )
            joined.append(y)
        return g.op.Add(*joined)

    def leaving(self, g: Graph, x: ir.Value, number_format: NumberFormat) -> None:
        """Emits what the graph returns besides logits, from the stream after the last layer."""
        g.output(graph_io.HIDDEN, g.op.Identity(x), np.float32, ["m", self.width])

    def residual_stream(self) -> ResidualStream:
        """States are in the head's own stream; features are not, so their matrices rotate them."""
        llama = super().residual_stream()
        joins = {f"{part}.weight": f"{part}_norm.weight" for part in (TOKEN, STATE)}
        return replace(
            llama,
            readers={**llama.readers, **joins},
            writers=llama.writers.union(self._maps, joins),
            down_projs=llama.down_projs.union(self._maps),
        )

    @property
    def _maps(self) -> tuple[str, ...]:
        """Names of the matrices of the feature fusion, one for each layer it reads."""
        return tuple(f"reader.maps.{index}.weight" for index in range(len(self.target_layers)))
