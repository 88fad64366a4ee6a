"""A draft that reads what its target is thinking: the hidden states behind some of its layers.

A guess at a text is hard for a model of one layer; a guess at what a model of thirty will say next,
after a look at its states, is not. Each position joins the token there with the target's states one
position before it. Where the target has not been yet, the draft's own hidden state takes their
place. Li et al. (2024, arXiv 2401.15077) and, for several layers, Li et al. (2025, arXiv
2503.01840); docs/decisions/0013-eagle-drafts.md says what differs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from edgespec.artifact import graph_io
from edgespec_export.components.attention import Attention
from edgespec_export.components.blocks import NumberFormat, decoder_positions, rms_norm
from edgespec_export.families.llama import EMBEDDING, KINDS, Llama
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.hadamard import Residual

__all__ = ["Eagle"]

TOKEN, STATE = "join.token", "join.state"


@dataclass(frozen=True)
class Eagle(Llama):
    """A Llama of few layers whose first input is joined from a token and a state.

    Attributes:
        reads: the target's layers whose output it reads, counted from 1.
        target_width: of their outputs.
    """

    reads: tuple[int, ...] = ()
    target_width: int = 0

    family = "eagle"

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.FEATURE_FUSION, graph_io.DECODER)

    @property
    def features(self) -> int:
        return len(self.reads) * self.target_width

    @classmethod
    def from_config(cls, values: dict[str, object], label: str) -> Eagle:
        own = {"target_layers", "target_hidden_size", "layers_of"}
        rest = {name: value for name, value in values.items() if name not in own}
        config = Config(values, label)
        config.must_be("layers_of", *KINDS)
        kind = config.get("layers_of", "llama")
        llama = Llama.from_config({**rest, "model_type": kind}, label)
        layers = tuple(map(int, config.need("target_layers")))
        if not layers:
            raise ValueError("target_layers names none")
        return cls(
            **{field.name: getattr(llama, field.name) for field in fields(llama)},
            reads=layers,
            target_width=int(config.need("target_hidden_size")),
        )

    def emit(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""
        if g.name == graph_io.FEATURE_FUSION:
            self._reader(g, numbers)
        else:
            self._decoder(g, numbers, attention)

    def _reader(self, g: Graph, numbers: NumberFormat) -> None:
        """States from the target's features: each layer's are normalised and mapped, and added."""
        features = g.input(graph_io.FEATURES, np.float32, ["m", self.features])
        parts = g.split(features, [self.target_width] * len(self.reads))
        maps = [
            numbers.inner(g, rms_norm(g, part, *self._norm(place)), _map(place))
            for place, part in enumerate(parts)
        ]
        states = maps[0] if len(maps) == 1 else g.op.Sum(*maps)
        g.output(graph_io.FUSED_STATES, states, np.float32, ["m", self.width])

    def _decoder(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, trees=attention.trees)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        joined = [
            numbers.linear(
                g, numbers.norm(g, x, f"{part}_norm.weight", self.epsilon), f"{part}.weight"
            )
            for part, x in ((TOKEN, numbers.table(g, tokens, EMBEDDING)), (STATE, states))
        ]
        x = self._through_layers(g, g.op.Add(*joined), positions, numbers, attention)[-1]
        self._end(g, x, numbers)
        g.output(graph_io.HIDDEN, g.op.Identity(x), np.float32, ["m", self.width])

    def residual(self) -> Residual:
        """States are of the draft's own stream; features are not, so their maps turn them."""
        llama = super().residual()
        maps = {_map(place) for place in range(len(self.reads))}
        joins = {f"{part}.weight": f"{part}_norm.weight" for part in (TOKEN, STATE)}
        return Residual(
            llama.tables,
            {**llama.readers, **joins},
            llama.writers | maps | joins.keys(),
            llama.inner | maps,
        )

    def _norm(self, place: int) -> tuple[str, float]:
        return f"reader.norms.{place}.weight", self.epsilon


def _map(place: int) -> str:
    return f"reader.maps.{place}.weight"
