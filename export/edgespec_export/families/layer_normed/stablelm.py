"""StableLM 2: a Llama with layer norms that rotates a quarter of each head.

The larger ones have attention and feed-forward side by side, and a norm of its own for each head of
queries and keys. Bellagente et al. (2024, arXiv 2402.17834).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock, Mixer
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import NormedRows, SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.layer_norm import HeadLayerNorms
from edgespec_export.families.layer_normed.layer_normed import HARMLESS, LayerNormedRotary
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, rotary_halves

__all__ = ["StableLm"]


@dataclass(frozen=True, kw_only=True)
class StableLm(LayerNormedRotary):
    """The shape of a StableLM.

    Attributes:
        qkv_bias: queries, keys and values have biases.
        head_norms: queries and keys have a norm for each head.
    """

    family = "stablelm"
    model_types: ClassVar[tuple[str, ...]] = ("stablelm",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight|.*\.rotary_emb\.inv_freq")

    qkv_bias: bool
    head_norms: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls(
            **cls.rotary_fields_of(config, label),
            activation=config.activation("hidden_act", "silu"),
            is_parallel=config.flag("use_parallel_residual", False),
            qkv_bias=config.flag("use_qkv_bias", False),
            head_norms=config.flag("qk_layernorm", False),
        )
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        order = rotary_halves(self.heads.size, self.rotated)
        heads = {"q_proj": self.heads.count, "k_proj": self.heads.kv_count}
        if not self.head_norms:
            return InRotaryOrder(weights, order, heads)
        norms = {"q_layernorm": self.heads.count, "k_layernorm": self.heads.kv_count}
        return InRotaryOrder(_NormsTogether(weights), order, heads | norms)

    @property
    def last_norm_name(self) -> str:
        return "model.norm"

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        attention, feed_forward = f"{at}.self_attn", f"{at}.mlp"
        second = "input" if self.is_parallel else "post_attention"
        parts = (f"{attention}.{part}_proj" for part in "qkv")
        return (
            AttentionBlock(
                name=attention,
                norm=self._norm(f"{at}.input_layernorm"),
                in_proj=Linear.named(*parts, bias=self.qkv_bias),
                mixer=self._mixer(attention, index),
                out_proj=Linear.named(f"{attention}.o_proj"),
            ),
            FeedForwardBlock(
                name=feed_forward,
                norm=self._norm(f"{at}.{second}_layernorm"),
                in_proj=Linear.named(f"{feed_forward}.gate_proj", f"{feed_forward}.up_proj"),
                activation=Gate(self.activation),
                out_proj=Linear.named(f"{feed_forward}.down_proj"),
            ),
        )

    def _mixer(self, attention: str, index: int) -> Mixer:
        heads = self.heads
        if not self.head_norms:
            return SelfAttention(index, heads)
        q_norm, k_norm = (
            HeadLayerNorms(f"{attention}.{part}_layernorm.weight", count, heads.size, self.epsilon)
            for part, count in (("q", heads.count), ("k", heads.kv_count))
        )
        return NormedRows(index, heads, q_norm, k_norm)


_NORM = re.compile(r"(.*\.[qk]_layernorm)\.norms\.(\d+)\.weight")


class _NormsTogether:
    """The checkpoint with the norms of all heads as one tensor [heads · size]."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._by_head: dict[str, dict[int, str]] = {}
        for name in weights.names():
            if found := _NORM.fullmatch(name):
                self._by_head.setdefault(f"{found[1]}.weight", {})[int(found[2])] = name

    def names(self) -> list[str]:
        alone = [name for name in self._weights.names() if not _NORM.fullmatch(name)]
        return sorted([*alone, *self._by_head])

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._by_head:
            return self._weights.shape(name)
        return (sum(self._weights.shape(one)[0] for one in self._by_head[name].values()),)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name not in self._by_head:
            return self._weights.read(name)
        stored = self._by_head[name]
        return np.concatenate([self._weights.read(stored[head]) for head in sorted(stored)])

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        return read_rows(self._weights, name, start, stop)
