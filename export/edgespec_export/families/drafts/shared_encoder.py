"""T5 drafts without an encoder: their decoder attends to their target's encoder states.

The source is encoded once, by the target; the draft projects what the target's encoder says to keys
and values of its own. docs/decisions/0032-shared-encoder.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.cross_attention import cross_outputs
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.family import Family
from edgespec_export.families.model_config import Config
from edgespec_export.families.t5 import HARMLESS, T5
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["SharedEncoder"]

SOURCE_NORM = "source_norm.weight"


@dataclass(frozen=True, kw_only=True)
class SharedEncoder(T5):
    """A T5 decoder that reads another T5's encoder.

    Attributes:
        target_width: width of the target's encoder states.
    """

    family = "shared_encoder"
    model_types = ("t5_shared_encoder",)
    transformers_class = None
    target_inputs = "its target's encoder"

    target_width: int

    @property
    def features(self) -> int:
        return self.target_width

    def prepared_target(self, target: Family) -> Family:
        super().prepared_target(target)
        prepared = target.with_encoder_output()
        if prepared is None or target.width != self.target_width:
            raise EdgespecError(
                f"{self.label} reads the encoder of a T5 of width {self.target_width}, and "
                f"{target.label} is not one; pair it with the target it was trained for"
            )
        return prepared

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config({**values, "num_layers": 1}, label)
        config.must_be("layers_of", *T5.model_types)
        shape = {
            **cls.fields_of(config, config.get("layers_of", "t5"), label),
            "encoder_layers": 0,
            "target_width": config.count("encoder_width"),
        }
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    def emit_encoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        states = g.input(graph_io.FEATURES, np.float32, ["source", self.target_width])
        normed = RmsNorm(SOURCE_NORM, self.epsilon).emit(g, states)
        for layer in range(self.layers):
            names = self.cross_projections(layer).weights
            parts = [number_format.down_proj(g, normed, Linear((name,))) for name in names]
            cross_outputs(g, self.heads, layer, parts)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield self.bias("decoder", 0).table, (self.buckets, self.heads.count)
        yield SOURCE_NORM, (self.target_width,)
        yield from Family.shapes(self)
        for name in self._cross_names:
            yield name, (self.heads.count * self.heads.size, self.target_width)

    def residual_stream(self) -> ResidualStream:
        """The target's states are not in the draft's stream: their matrices rotate them."""
        own = Family.residual_stream(self)
        return replace(own, down_projs=own.down_projs.union(self._cross_names))

    @property
    def _cross_names(self) -> tuple[str, ...]:
        layers = range(self.layers)
        return tuple(name for layer in layers for name in self.cross_projections(layer).weights)
