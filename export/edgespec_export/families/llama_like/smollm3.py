"""SmolLM3: a Llama of which every fourth layer has no rotary positions.

Such a layer sees the order of tokens only by what it may attend to (Kazemnejad et al. 2023, arXiv
2305.19466). Angles of 0 rotate nothing, so its graph is that of any other layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from edgespec_export.components.positions import Angles, Positions
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["SmolLM3"]


@dataclass(frozen=True, kw_only=True)
class SmolLM3(Llama):
    """The shape of a SmolLM3.

    Attributes:
        rotates: whether each layer has rotary positions.
    """

    family = "smollm3"
    model_types: ClassVar[tuple[str, ...]] = ("smollm3",)

    rotates: tuple[bool, ...]

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, RELATIVES["smollm3"], label)
        shape["rotates"] = _rotates(config, shape["layers"])
        if config.get("layer_types") is None:  # layers without rotary positions have the windows
            both = zip(shape["rotates"], shape["windows"], strict=True)
            shape["windows"] = tuple(None if rotates else window for rotates, window in both)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        rotary = self.rotary.emit(g, positions)
        if all(self.rotates):
            return [rotary] * self.layers
        identity_rotary = self.rotary.identity_rotary.emit(g, positions)
        return [rotary if rotates else identity_rotary for rotates in self.rotates]


def _rotates(config: Config, layers: int) -> tuple[bool, ...]:
    """Whether each layer has rotary positions: as listed (a 1 means yes), or all but every n-th."""
    interval = config.count("no_rope_layer_interval", 4)
    default = [int((layer + 1) % interval != 0) for layer in range(layers)]
    listed = config.get("no_rope_layers", default)
    if len(listed) < layers or any(one not in (0, 1) for one in listed):
        raise ValueError(f"no_rope_layers does not say 0 or 1 for each of {layers} layers")
    return tuple(map(bool, listed[:layers]))
