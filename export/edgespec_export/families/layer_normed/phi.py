"""Phi-1, 1.5 and 2: attention and feed-forward side by side, of which both read one norm.

Li et al. (2023, arXiv 2309.05463). Its head has a bias.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.families.layer_normed.layer_normed import HARMLESS, LayerNormedRotary
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, rotary_halves
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Phi"]

HEAD_BIAS = "lm_head.bias"


@dataclass(frozen=True, kw_only=True)
class Phi(LayerNormedRotary):
    """The shape of a Phi before Phi-3."""

    family = "phi"
    model_types: ClassVar[tuple[str, ...]] = ("phi",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight|.*\.rotary_emb\.inv_freq")

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls(
            **cls.rotary_fields_of(config, label),
            activation=config.activation("hidden_act", "gelu_new"),
            is_parallel=True,
        )
        config.must_be("qk_layernorm", False)
        config.refuse_the_rest(harmless={*HARMLESS, "embd_pdrop", "resid_pdrop"})
        return shape

    def view(self, weights: Weights) -> Weights:
        order = rotary_halves(self.heads.size, self.rotated)
        heads = {"q_proj": self.heads.count, "k_proj": self.heads.kv_count}
        return InRotaryOrder(weights, order, heads)

    @property
    def last_norm_name(self) -> str:
        return "model.final_layernorm"

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        norm, attention = self._norm(f"{at}.input_layernorm"), f"{at}.self_attn"
        return (
            AttentionBlock(
                name=attention,
                norm=norm,
                in_proj=Linear.named(*(f"{attention}.{part}_proj" for part in "qkv"), bias=True),
                mixer=SelfAttention(index, self.heads),
                out_proj=Linear.named(f"{attention}.dense", bias=True),
            ),
            FeedForwardBlock(
                name=f"{at}.mlp",
                norm=norm,
                in_proj=Linear.named(f"{at}.mlp.fc1", bias=True),
                activation=Ungated(self.activation),
                out_proj=Linear.named(f"{at}.mlp.fc2", bias=True),
            ),
        )

    def after_head(self, g: Graph, logits: ir.Value) -> ir.Value:
        # Not `Add`: see `add_biases`.
        return g.op.Sum(logits, g.weight(HEAD_BIAS))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        yield HEAD_BIAS, (self.vocab_size,)
