"""Llamas under other names: Seed-OSS, InternLM3, Helium, GLM-Edge, ERNIE 4.5, Ministral, and the
text model of Qwen3-VL.

Helium, GLM and ERNIE rotate neighbouring numbers of a head, so their queries and keys are
reordered; GLM rotates half of a head and stores both inputs of the feed-forward in one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.blocks.block import FeedForwardBlock
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RENAMED, LlamaKind
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import rotated_numbers, without_pictures
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, neighbours

__all__ = ["RenamedLlama"]


@dataclass(frozen=True, kw_only=True)
class RenamedLlama(Llama):
    """A Llama of another model type.

    Attributes:
        rotated: how many numbers of a head are rotated as neighbours; 0 where halves are.
        feed_forward_width: width of the feed-forward where one matrix holds both of its inputs,
            else 0.
    """

    family = "llama_like"
    model_types: ClassVar[tuple[str, ...]] = tuple(RENAMED)

    rotated: int
    feed_forward_width: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        return cls.of_kind(values, RENAMED[values["model_type"]], label)

    @classmethod
    def of_kind(cls, values: dict[str, Any], kind: LlamaKind, label: str) -> Self:
        """The shape that a config asks for, of a model type that differs from a Llama by `kind`."""
        config = Config(without_pictures(values) if kind.pictures else values, label)
        shape = cls.fields_of(config, kind, label)
        rotated = rotated_numbers(config, shape["heads"].size) if kind.neighbours else 0
        feed_forward_width = config.count("intermediate_size") if kind.gate_up else 0
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape, rotated=rotated, feed_forward_width=feed_forward_width)

    def view(self, weights: Weights) -> Weights:
        if not self.rotated:
            return weights
        order = neighbours(self.heads.size, self.rotated)
        heads = {"q_proj": self.heads.count, "k_proj": self.heads.kv_count}
        return InRotaryOrder(weights, order, heads)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        block = super()._feed_forward_block(at)
        if not self.feed_forward_width:
            return block
        widths = (self.feed_forward_width, self.feed_forward_width)
        return replace(block, in_proj=Linear.named(f"{at}.mlp.gate_up_proj", widths=widths))
