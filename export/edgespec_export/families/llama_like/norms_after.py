"""OLMo 2, OLMo 3 and EXAONE 4: a Llama whose only norms come after its blocks.

x + norm(block(x)), so blocks read a residual stream that no norm has made small. Queries and keys
are normalised before their rotation: OLMo's as whole rows (Team OLMo 2024, arXiv 2501.00656),
EXAONE's head by head. OLMo 3 and the larger EXAONE have windows in three of four layers; OLMo's
two kinds of layers have rotary positions of their own, and EXAONE's global layers have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec.errors import EdgespecError, shortened
from edgespec_export.components.blocks.block import AttentionBlock, FeedForwardBlock
from edgespec_export.components.blocks.self_attention import NormedRows
from edgespec_export.components.norms.norm import NoNorm
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import NORMS_AFTER, LlamaKind
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import whole_rotary
from edgespec_export.families.windows import (
    GLOBAL,
    WINDOWED,
    all_but_every,
    layer_kinds,
)
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["NormsAfter"]

# Layers by their kind, which configs settle apart from the rest (`_layers`).
OF_LAYERS = {"sliding_window": None, "layer_types": None}
OLMO3_BASE = 500_000.0


@dataclass(frozen=True, kw_only=True)
class NormsAfter(Llama):
    """The shape of a model with norms after its blocks only.

    Attributes:
        row_norms: queries and keys are normalised as whole rows, not head by head.
        kinds: of each layer, `WINDOWED` or `GLOBAL`.
        rotary_of: the rotary positions of each kind of layer.
    """

    family = "norms_after"
    model_types: ClassVar[tuple[str, ...]] = tuple(NORMS_AFTER)

    row_norms: bool
    kinds: tuple[str, ...]
    rotary_of: Mapping[str, Rotary]

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        kind = NORMS_AFTER[values["model_type"]]
        rope = _rope_by_kind(values, label) if kind.rope_by_kind else {}
        config = Config({**values, **rope.get(GLOBAL, {}), **OF_LAYERS}, label)
        shape = cls.fields_of(config, kind, label)
        window, kinds = _layers(Config(values, label), kind, shape["layers"])
        config.get("sliding_window_pattern")
        config.refuse_the_rest(harmless=HARMLESS)
        rotary_of: dict[str, Rotary] = {WINDOWED: shape["rotary"], GLOBAL: shape["rotary"]}
        positions = shape["positions"]
        if kind.rope_by_kind:
            windowed = Config({**values, **rope[WINDOWED]}, label)
            size = shape["heads"].size
            rotary_of[WINDOWED] = whole_rotary(windowed, size, positions, label)
        if kind.windows_rotate_alone and window is not None:
            rotary_of[GLOBAL] = shape["rotary"].identity_rotary
        if window is not None and window < positions:
            shape["windows"] = tuple(window if of == WINDOWED else None for of in kinds)
        return cls(
            **shape,
            row_norms=kind.row_norms,
            kinds=kinds,
            rotary_of=rotary_of,
        )

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        angles = {
            kind: self.rotary_of[kind].emit(g, positions) for kind in dict.fromkeys(self.kinds)
        }
        return [angles[kind] for kind in self.kinds]

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        block = super()._attention_block(at, index)
        norm = self._norm(f"{at}.post_attention_layernorm")
        block = replace(block, norm=NoNorm(), post_norm=norm)
        if not self.row_norms:
            return block
        q_norm, k_norm = (self._norm(f"{block.name}.{part}_norm") for part in "qk")
        mixer = NormedRows(index, self._heads_of(index), q_norm, k_norm)
        return replace(block, mixer=mixer)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        norm = self._norm(f"{at}.post_feedforward_layernorm")
        return replace(super()._feed_forward_block(at), norm=NoNorm(), post_norm=norm)


def _layers(config: Config, kind: LlamaKind, layers: int) -> tuple[int | None, tuple[str, ...]]:
    """The window, None without one, and the kind of each layer.

    Raises:
        ValueError: layers have a window, and the config says that there is none.
    """
    if not kind.pattern:
        return None, (GLOBAL,) * layers
    window = config.count("sliding_window") if config.get("sliding_window") is not None else None
    period = config.get("sliding_window_pattern", kind.pattern)
    default = (GLOBAL,) * layers
    if window is not None and type(period) is int and period > 0:
        default = all_but_every(period, layers)
    kinds = layer_kinds(config, default)
    if window is None and WINDOWED in kinds:
        raise ValueError("layer_types has windows, and sliding_window is null")
    return window, kinds


def _rope_by_kind(values: Mapping[str, Any], label: str) -> dict[str, dict[str, Any]]:
    """The rope keys of each kind of layer of an OLMo 3, as a config of one kind has them.

    Older configs scale global layers only. Both kinds have one base in transformers 4, and in 5
    windowed ones have the class's whatever the config says.

    Raises:
        EdgespecError: an older config with another base than the class's.
        ValueError: settings of something that is no kind of layer.
    """
    newer = values.get("rope_parameters") or {}
    unknown = sorted(set(newer) - {WINDOWED, GLOBAL})
    if unknown:
        raise ValueError(f"rope_parameters has {unknown}, not {[WINDOWED, GLOBAL]}")
    base = values.get("rope_theta", OLMO3_BASE)
    if base != OLMO3_BASE and "rope_theta" not in (newer.get(WINDOWED) or {}):
        raise EdgespecError(
            f"{label}: config.json says rope_theta = {shortened(base)}, which transformers reads "
            "for OLMo 3's windowed layers in some versions only: write it into rope_parameters"
        )
    older = {GLOBAL: values.get("rope_scaling") or {}}
    return {
        kind: {
            "rope_scaling": None,
            "rope_parameters": {
                "rope_theta": base,
                **(newer.get(kind) or {}),
                **older.get(kind, {}),
            },
        }
        for kind in (WINDOWED, GLOBAL)
    }
