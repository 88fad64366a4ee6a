"""Arcee's AFM: a Llama whose feed-forward has no gate, and squares what ReLU leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.components.blocks.block import FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config

__all__ = ["Arcee"]


@dataclass(frozen=True, kw_only=True)
class Arcee(Llama):
    """The shape of an AFM."""

    family = "arcee"
    model_types: ClassVar[tuple[str, ...]] = ("arcee",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, RELATIVES["arcee"], label)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        in_proj = Linear.named(f"{at}.mlp.up_proj", bias=self.mlp_bias)
        return replace(
            super()._feed_forward_block(at), in_proj=in_proj, activation=Ungated(self.activation)
        )
