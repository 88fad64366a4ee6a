"""gpt-oss: a Llama with experts in every layer, attention sinks, and windows in every other layer.

A sink is one more key for each head, with a learned score and no value. Experts have biases, and a
gate with bounds (OpenAI 2025, arXiv 2508.10925). A checkpoint has the matrices of all experts as
one tensor; those that read have the rows of gate and input in turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.blocks.block import AttentionBlock, FeedForwardBlock
from edgespec_export.components.blocks.experts import Expert, ExpertsBlock, SoftmaxRouting
from edgespec_export.components.blocks.feed_forward import ClampedGate
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config
from edgespec_export.families.windows import GLOBAL, WINDOWED

__all__ = ["GptOss"]

OF_EXPERTS = {"output_router_logits", "router_aux_loss_coef", "swiglu_limit", "experts_per_token"}
DEFAULT_ROPE = {
    **{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0},
    **{"beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096},
}


@dataclass(frozen=True, kw_only=True)
class GptOss(Llama):
    """The shape of a gpt-oss.

    Attributes:
        experts: of a layer.
        chosen: experts of a row.
        gate: the activation of an expert.
    """

    family = "gpt_oss"
    model_types: ClassVar[tuple[str, ...]] = ("gpt_oss",)

    experts: int
    chosen: int
    gate: ClampedGate

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        layers = Config(values, label).count("num_hidden_layers", 36)
        turns = [GLOBAL if layer % 2 else WINDOWED for layer in range(layers)]
        values = {"attention_bias": True, "sliding_window": 128, **values}
        values["layer_types"] = values.get("layer_types") or turns
        if not values.get("rope_parameters") and not values.get("rope_scaling"):
            base = values.get("rope_theta") or DEFAULT_ROPE["rope_theta"]
            values["rope_parameters"] = {**DEFAULT_ROPE, "rope_theta": base}
        config = Config(values, label)
        count = "num_experts" if config.states("num_experts") else "num_local_experts"
        fields = cls.fields_of(config, RELATIVES["gpt_oss"], label)
        shape = cls(
            **{**fields, "heads": replace(fields["heads"], is_unusual=True)},
            experts=config.count(count, 128),
            chosen=config.count("num_experts_per_tok", 4),
            gate=ClampedGate(
                config.number("swiglu_alpha", 1.702), config.number("swiglu_limit", 7.0)
            ),
        )
        if shape.chosen > shape.experts:
            raise ValueError(f"num_experts_per_tok is {shape.chosen} of {shape.experts}")
        config.refuse_the_rest(harmless=HARMLESS | OF_EXPERTS)
        return shape

    def view(self, weights: Weights) -> Weights:
        return _ExpertsApart(weights, self.experts)

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        block = super()._attention_block(at, index)
        sinks = f"{block.name}.sinks"
        return replace(block, mixer=SelfAttention(index, self._heads_of(index), sinks=sinks))

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        block = replace(super()._feed_forward_block(at), activation=self.gate)
        router, routing = f"{block.name}.router", SoftmaxRouting(self.chosen, normalized=True)
        experts = [self._expert(f"{block.name}.experts.{i}") for i in range(self.experts)]
        return ExpertsBlock.of(
            block, f"{router}.weight", routing, experts, router_bias=f"{router}.bias"
        )

    @staticmethod
    def _expert(name: str) -> Expert:
        reads = Linear.named(f"{name}.gate_proj", f"{name}.up_proj", bias=True)
        return Expert(reads, Linear.named(f"{name}.down_proj", bias=True))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        for index in range(self.layers):
            at = f"model.layers.{index}"
            yield f"{at}.self_attn.sinks", (self.heads.count,)
            yield f"{at}.mlp.router.weight", (self.experts, self.width)
            yield f"{at}.mlp.router.bias", (self.experts,)


_STORED = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)(_bias)?")
_FIRST_OF = {"gate_proj": 0, "up_proj": 1}  # where its rows begin among those in turns


class _ExpertsApart:
    """The checkpoint with the matrices [out, in] and biases [out] of each expert."""

    def __init__(self, weights: Weights, experts: int) -> None:
        self._weights = weights
        self._made: dict[str, tuple[str, int, str]] = {}  # the stored tensor, expert, matrix
        for name in weights.names():
            found = _STORED.fullmatch(name)
            if found is None:
                continue
            matrices = ("down_proj",) if found[2] == "down_proj" else tuple(_FIRST_OF)
            kind = "bias" if found[3] else "weight"
            for expert in range(experts):
                for matrix in matrices:
                    made = f"{found[1]}.{expert}.{matrix}.{kind}"
                    self._made[made] = (name, expert, matrix)
        self._taken = {name for name, *_ in self._made.values()}

    def names(self) -> list[str]:
        return sorted({*self._weights.names(), *self._made} - self._taken)

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._made:
            return self._weights.shape(name)
        stored, _, matrix = self._made[name]
        *inner, out = self._weights.shape(stored)[1:]
        return (out // 2 if matrix in _FIRST_OF else out, *inner)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name not in self._made:
            return self._weights.read(name)
        stored, expert, matrix = self._made[name]
        tensor = read_rows(self._weights, stored, expert, expert + 1)[0].T
        if matrix in _FIRST_OF:
            tensor = tensor[_FIRST_OF[matrix] :: 2]
        return np.ascontiguousarray(tensor)

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if name not in self._made:
            return read_rows(self._weights, name, start, stop)
        return self.read(name)[start:stop]
