"""Gemma 1 and 2: relatives of Gemma 3 whose queries and keys have no norms.

Gemma 1 has norms before its blocks only, and no windows (Gemma Team 2024, arXiv 2403.08295).
Gemma 2 has windows in every other layer, and caps: scores and logits are cap · tanh(x / cap)
(arXiv 2408.00118).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.components.attention.heads import HeadNorms
from edgespec_export.components.blocks.block import Block
from edgespec_export.components.norms.norm import NoNorm
from edgespec_export.families.gemma.gemma3 import HARMLESS, TANH, Gemma3
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import whole_rotary
from edgespec_export.families.windows import GLOBAL, WINDOWED, all_but_every, layer_kinds

__all__ = ["Gemma", "Gemma2", "cap_of"]

PATTERN = 2  # every second layer of a Gemma 2 is global


@dataclass(frozen=True, kw_only=True)
class Gemma(Gemma3):
    """The shape of a Gemma 1."""

    family = "gemma"
    model_types: ClassVar[tuple[str, ...]] = ("gemma",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, label)
        rotary = whole_rotary(config, shape["heads"].size, shape["positions"], label)
        config.must_be("hidden_act", "gelu", *TANH)  # older configs call the approximation "gelu"
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(
            **shape,
            window=shape["positions"],
            kinds=(GLOBAL,) * shape["layers"],
            rotary={GLOBAL: rotary},
        )

    def layer(self, index: int) -> tuple[Block, ...]:
        attention, feed_forward = super().layer(index)
        norm = self._norm(f"model.layers.{index}.post_attention_layernorm")
        return (
            replace(attention, post_norm=NoNorm()),
            replace(feed_forward, norm=norm, post_norm=NoNorm()),
        )

    def _head_norms(self, attention: str) -> HeadNorms | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Gemma2(Gemma3):
    """The shape of a Gemma 2."""

    family = "gemma2"
    model_types: ClassVar[tuple[str, ...]] = ("gemma2",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, label)
        scale = config.number("query_pre_attn_scalar", 256) ** -0.5
        shape["heads"] = replace(
            shape["heads"], scale=scale, cap=cap_of(config, "attn_logit_softcapping")
        )
        rotary = whole_rotary(config, shape["heads"].size, shape["positions"], label)
        window = config.count("sliding_window", 4096)
        kinds = layer_kinds(config, all_but_every(PATTERN, shape["layers"]))
        logit_cap = cap_of(config, "final_logit_softcapping")
        config.must_be("hidden_activation", *TANH)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(
            **shape,
            logit_cap=logit_cap,
            window=window,
            kinds=kinds,
            rotary=dict.fromkeys((WINDOWED, GLOBAL), rotary),
        )

    def _head_norms(self, attention: str) -> HeadNorms | None:
        return None


def cap_of(config: Config, key: str) -> float | None:
    """None where the config has null, which is no cap."""
    if config.get(key) is None:
        return None
    cap = config.number(key, 0.0)
    if not cap:
        raise ValueError(f"{key} is 0")
    return cap
