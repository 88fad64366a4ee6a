"""Ministral 3: a Mistral with YaRN whose queries grow with their position.

A query at position p is multiplied by 1 + β · ln(1 + ⌊p / n⌋), n the positions of training, so that
attention over long texts stays as sharp (Meta 2025, Llama 4, has the same for its global layers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.components.blocks.block import AttentionBlock
from edgespec_export.components.blocks.self_attention import ScaledQueries
from edgespec_export.components.positions import QueryFactors
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, trained_positions

__all__ = ["Ministral3"]

BETA = "llama_4_scaling_beta"


@dataclass(frozen=True, kw_only=True)
class Ministral3(Llama):
    """The shape of a Ministral 3.

    Attributes:
        query_factors: of the queries, by their position.
    """

    family = "ministral3"
    model_types: ClassVar[tuple[str, ...]] = ("ministral3",)

    query_factors: QueryFactors

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        name = "rope_scaling" if values.get("rope_scaling") else "rope_parameters"
        rope = dict(Config(values, label).need(name))
        beta = float(rope.pop(BETA))
        rope.pop(LENGTH, None)  # transformers writes it there and does not read it
        config = Config({**values, name: rope}, label)
        shape = cls.fields_of(config, RELATIVES["ministral3"], label)
        factors = QueryFactors(beta, trained_positions(config), shape["positions"])
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape, query_factors=factors)

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        block = super()._attention_block(at, index)
        mixer = ScaledQueries(index, self._heads_of(index), self.query_factors)
        return replace(block, mixer=mixer)
