"""Gemma 3's text model: windowed and global layers, each with its own rotary base.

Each block has a norm before and after it; norms multiply by 1 + w; queries and keys are normalised
head by head; the embedding is scaled by √width and is also the head. Gemma Team (2025, arXiv
2503.19786).

√width is rounded to float32, as transformers and llama.cpp do for weights in float32. transformers
rounds it further if it loads weights as bfloat16: 25.25 instead of 25.298 for a width of 640.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, whole_rotary
from edgespec_export.families.windows import (
    GLOBAL,
    WINDOWED,
    all_but_every,
    heads_of_kind,
    layer_kinds,
)
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["HARMLESS", "TANH", "Gemma3", "WithOne"]

# The base of each kind of layer, and the key that older configs have for it.
BASES = {WINDOWED: ("rope_local_base_freq", 1e4), GLOBAL: ("rope_theta", 1e6)}
DEFAULT_PATTERN = 6  # every sixth layer is global
TANH = ("gelu_pytorch_tanh", "gelu_new", "gelu_fast")  # names of one activation
HARMLESS = {
    "intermediate_size",  # the matrices themselves have it
    "_sliding_window_pattern",  # a remark: transformers reads it without the _
    "cache_implementation",
}


@dataclass(frozen=True, kw_only=True)
class Gemma3(DecoderOnly):
    """The shape of a Gemma 3.

    Attributes:
        window: how many positions a windowed layer's queries see, their own included.
        kinds: of each layer, `WINDOWED` or `GLOBAL`.
        rotary: the rotary positions of each kind of layer.
    """

    family = "gemma3"
    model_types: ClassVar[tuple[str, ...]] = ("gemma3_text",)
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight")  # a copy of a tied head

    window: int
    kinds: tuple[str, ...]
    rotary: dict[str, Rotary]

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, label)
        scale = config.number("query_pre_attn_scalar", 256) ** -0.5
        shape["heads"] = replace(shape["heads"], scale=scale)
        pattern = config.count("sliding_window_pattern", DEFAULT_PATTERN)
        window = config.count("sliding_window", 4096)
        kinds = layer_kinds(config, all_but_every(pattern, shape["layers"]))
        rotary = _rotary(config, shape["heads"].size, shape["positions"], label)
        config.must_be("hidden_activation", *TANH)
        config.must_be("attn_logit_softcapping")
        config.must_be("final_logit_softcapping")
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape, window=window, kinds=kinds, rotary=rotary)

    @staticmethod
    def fields_of(config: Config, label: str) -> dict[str, Any]:
        """The fields that all Gemmas have; keys that are left over are not refused."""
        heads, size = config.count("num_attention_heads", 8), config.count("head_dim", 256)
        config.must_be("attention_bias", False)
        if config.get("use_bidirectional_attention"):
            raise EdgespecError(
                f"{label}: attention is not causal (use_bidirectional_attention): the model makes "
                "vectors, such as EmbeddingGemma, and generates no text"
            )
        return {
            "label": label,
            "vocab_size": config.count("vocab_size", 262208),
            "width": config.count("hidden_size", 2304),
            "layers": config.count("num_hidden_layers", 26),
            "heads": Heads(heads, config.count("num_key_value_heads", 4), size, size**-0.5),
            "epsilon": config.number("rms_norm_eps", 1e-6),
            "tied_head": config.flag("tie_word_embeddings", True),
            "positions": min(config.count(LENGTH, 131072), MAX_POSITIONS),
        }

    def view(self, weights: Weights) -> Weights:
        return WithOne(weights)

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        norm, attention, feed_forward = self._norm, f"{at}.self_attn", f"{at}.mlp"
        return (
            AttentionBlock(
                name=attention,
                norm=norm(f"{at}.input_layernorm"),
                in_proj=Linear.named(*(f"{attention}.{part}_proj" for part in "qkv")),
                mixer=SelfAttention(index, self._heads_of(index), self._head_norms(attention)),
                out_proj=Linear.named(f"{attention}.o_proj"),
                post_norm=norm(f"{at}.post_attention_layernorm"),
            ),
            FeedForwardBlock(
                name=feed_forward,
                norm=norm(f"{at}.pre_feedforward_layernorm"),
                in_proj=Linear.named(f"{feed_forward}.gate_proj", f"{feed_forward}.up_proj"),
                activation=Gate("gelu_pytorch_tanh"),
                out_proj=Linear.named(f"{feed_forward}.down_proj"),
                post_norm=norm(f"{at}.post_feedforward_layernorm"),
            ),
        )

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.norm")

    def embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        rows = super().embedding(g, tokens, positions, number_format)
        return g.op.Mul(rows, g.constant(self.width**0.5, np.float32))

    def encodings(self, g: Graph, positions: Positions) -> Sequence[Angles]:
        angles = {kind: self.rotary[kind].emit(g, positions) for kind in dict.fromkeys(self.kinds)}
        return [angles[kind] for kind in self.kinds]

    def _heads_of(self, index: int) -> Heads:
        return heads_of_kind(self.heads, self.kinds[index], self.window, self.positions)

    def _head_norms(self, attention: str) -> HeadNorms | None:
        """Of queries and keys."""
        q_norm, k_norm = (f"{attention}.{part}_norm.weight" for part in "qk")
        return HeadNorms(q_norm, k_norm, self.epsilon)

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)


def _rotary(config: Config, size: int, positions: int, label: str) -> dict[str, Rotary]:
    """Of each kind of layer. Older configs scale only those of global layers."""
    newer = config.get("rope_parameters") or {}
    scaling = {GLOBAL: _scaling(config, label)}
    unknown = sorted(set(newer) - set(BASES))
    if unknown:
        raise ValueError(f"rope_parameters has {unknown}, not {sorted(BASES)}")
    made = {}
    for kind, (key, default) in BASES.items():
        base = config.number(key, default)
        settings = {"rope_theta": base, **(newer.get(kind) or {}), **scaling.get(kind, {})}
        own = Config({"rope_parameters": settings, LENGTH: config.get(LENGTH)}, label)
        made[kind] = whole_rotary(own, size, positions, label)
    return made


def _scaling(config: Config, label: str) -> dict[str, Any]:
    """The scaling of older configs, which is that of global layers.

    Raises:
        EdgespecError: it names its kind "type": transformers 4 reads that, and 5 passes over it.
    """
    scaling = config.get("rope_scaling") or {}
    if "type" in scaling and "rope_type" not in scaling:
        raise EdgespecError(
            f"{label}: rope_scaling says type = {shortened(scaling['type'])}, which transformers "
            "reads for Gemma 3 in some versions only: write it as rope_type, or take it out"
        )
    return scaling


class WithOne:
    """The checkpoint with norms that are 1 + w."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        return self._changed(name, self._weights.read(name))

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        return self._changed(name, read_rows(self._weights, name, start, stop))

    @staticmethod
    def _changed(name: str, rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        if not name.endswith("norm.weight"):
            return rows
        return rows.astype(np.float32) + np.float32(1)
