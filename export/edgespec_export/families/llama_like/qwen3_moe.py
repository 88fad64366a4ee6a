"""Qwen3-MoE (30B-A3B): a Qwen3 whose layers have experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from edgespec_export.components.blocks.block import FeedForwardBlock
from edgespec_export.components.blocks.experts import Expert, ExpertsBlock, SoftmaxRouting
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config

__all__ = ["Qwen3Moe"]

OF_EXPERTS = {"moe_intermediate_size", "output_router_logits", "router_aux_loss_coef"}


@dataclass(frozen=True, kw_only=True)
class Qwen3Moe(Llama):
    """The shape of a Qwen3-MoE.

    Attributes:
        experts: of a layer that has any.
        chosen: experts of a row.
        normalized: the shares of a row's experts sum to 1.
        expert_layers: the layers that have experts.
    """

    family = "qwen3_moe"
    model_types: ClassVar[tuple[str, ...]] = ("qwen3_moe",)

    experts: int
    chosen: int
    normalized: bool
    expert_layers: frozenset[int]

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        fields = cls.fields_of(config, RELATIVES["qwen3_moe"], label)
        step, dense = config.count("decoder_sparse_step", 1), config.get("mlp_only_layers", [])
        count = "num_local_experts" if config.states("num_local_experts") else "num_experts"
        shape = cls(
            **fields,
            experts=config.count(count, 128),
            chosen=config.count("num_experts_per_tok", 8),
            normalized=config.flag("norm_topk_prob", False),
            expert_layers=frozenset(
                layer
                for layer in range(fields["layers"])
                if (layer + 1) % step == 0 and layer not in dense
            ),
        )
        if shape.chosen > shape.experts:
            raise ValueError(f"num_experts_per_tok is {shape.chosen} of {shape.experts}")
        config.refuse_the_rest(harmless=HARMLESS | OF_EXPERTS)
        return shape

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        block = super()._feed_forward_block(at)
        if int(at.rpartition(".")[2]) not in self.expert_layers:
            return block
        routing = SoftmaxRouting(self.chosen, self.normalized)
        experts = [self._expert(f"{block.name}.experts.{i}") for i in range(self.experts)]
        return ExpertsBlock.of(block, f"{block.name}.gate.weight", routing, experts)

    @staticmethod
    def _expert(name: str) -> Expert:
        reads = Linear.named(f"{name}.gate_proj", f"{name}.up_proj")
        return Expert(reads, Linear.named(f"{name}.down_proj"))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for index in sorted(self.expert_layers):
            yield f"model.layers.{index}.mlp.gate.weight", (self.experts, self.width)
