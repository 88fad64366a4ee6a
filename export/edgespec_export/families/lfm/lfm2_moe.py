"""LFM2-MoE (LFM2-8B-A1B, LFM2.5-8B-A1B): an LFM2 whose layers, but the first ones, have experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from edgespec_export.components.blocks.block import FeedForwardBlock
from edgespec_export.components.blocks.experts import Expert, ExpertsBlock, SigmoidRouting
from edgespec_export.components.linear import Linear
from edgespec_export.families.lfm.lfm2 import HARMLESS, Lfm2
from edgespec_export.families.model_config import Config

__all__ = ["Lfm2Moe"]

OF_EXPERTS = {"moe_intermediate_size", "output_router_logits"}


@dataclass(frozen=True, kw_only=True)
class Lfm2Moe(Lfm2):
    """The shape of an LFM2-MoE.

    Attributes:
        experts: of a layer that has any.
        chosen: experts of a row.
        dense_layers: the first layers, which have none.
        has_bias: experts are chosen with a bias for each.
        normalized: the shares of a row's experts sum to 1.
        share_factor: of all shares.
    """

    family = "lfm2_moe"
    model_types = ("lfm2_moe",)

    experts: int
    chosen: int
    dense_layers: int
    has_bias: bool
    normalized: bool
    share_factor: float

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        fields = cls.fields_of(config, label)
        shape = cls(
            **fields,
            experts=config.count("num_experts", 32),
            chosen=config.count("num_experts_per_tok", 4),
            dense_layers=int(config.number("num_dense_layers", 2)),
            has_bias=config.flag("use_expert_bias", True),
            normalized=config.flag("norm_topk_prob", True),
            share_factor=config.number("routed_scaling_factor", 1.0),
        )
        if shape.chosen > shape.experts:
            raise ValueError(f"num_experts_per_tok is {shape.chosen} of {shape.experts}")
        config.refuse_the_rest(harmless=HARMLESS | OF_EXPERTS)
        return shape

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        block = super()._feed_forward_block(at)
        if int(at.rpartition(".")[2]) < self.dense_layers:
            return block
        bias = f"{block.name}.expert_bias" if self.has_bias else None
        routing = SigmoidRouting(self.chosen, self.normalized, bias, self.share_factor)
        experts = [self._expert(f"{block.name}.experts.{i}") for i in range(self.experts)]
        return ExpertsBlock.of(block, f"{block.name}.gate.weight", routing, experts)

    @staticmethod
    def _expert(name: str) -> Expert:
        return Expert(Linear.named(f"{name}.w1", f"{name}.w3"), Linear.named(f"{name}.w2"))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for index in range(self.dense_layers, self.layers):
            yield f"model.layers.{index}.feed_forward.gate.weight", (self.experts, self.width)
