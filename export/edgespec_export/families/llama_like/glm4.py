"""GLM-4 (0414): a GLM with a norm before and after each block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.components.blocks.block import AttentionBlock, FeedForwardBlock
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.llama_like.renamed import RenamedLlama

__all__ = ["Glm4"]


@dataclass(frozen=True, kw_only=True)
class Glm4(RenamedLlama):
    """The shape of a GLM-4."""

    family = "glm4"
    model_types: ClassVar[tuple[str, ...]] = ("glm4",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        return cls.of_kind(values, RELATIVES["glm4"], label)

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        norm = self._norm(f"{at}.post_self_attn_layernorm")
        return replace(super()._attention_block(at, index), post_norm=norm)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        norm = self._norm(f"{at}.post_mlp_layernorm")
        return replace(super()._feed_forward_block(at), post_norm=norm)
