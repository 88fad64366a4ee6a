"""Llama and models built like it: SmolLM2, Qwen2.5, Qwen3, Mistral.

Decoder-only: grouped-query attention with rotary positions, gated feed-forward, RMS norms. How the
model types differ is in llama_kinds.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import PositionEncoding
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Gate
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.positions import Positions, Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.llama_like.llama_kinds import KINDS, LlamaKind
from edgespec_export.families.llama_like.llama_windows import layer_windows
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.balanced_keys import WHOLE, BalancedKeys
from edgespec_export.families.rotary.rope import (
    longest_text,
    partial_rotary,
    rotated_numbers,
    whole_rotary,
)
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Llama"]

HARMLESS = {
    "intermediate_size",  # the matrices themselves have it
    "is_llama_config",  # a remark of SmolLM2's
}


@dataclass(frozen=True, kw_only=True)
class Llama(DecoderOnly):
    """The shape of a Llama-like model and how it differs from others.

    Attributes:
        rotary: its rotary positions.
        windows: how many positions the queries of each layer see, their own included; None: all
            before them.
        activation: of the feed-forward's gate.
        qkv_bias, out_bias, mlp_bias: which projections have one (Qwen2: only q, k and v).
        head_norms: q and k are normalised head by head (Qwen3).
        balances_keys: see `with_balanced_keys`.
    """

    family = "llama"
    model_types: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2", "qwen3")
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    # Frequencies that follow from the config, and a copy of a tied head.
    redundant = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq|lm_head\.weight")

    rotary: Rotary
    windows: tuple[int | None, ...]
    activation: str
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: bool
    balances_keys: bool = False

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls(**cls.fields_of(config, KINDS[config.need("model_type")], label))
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    @staticmethod
    def fields_of(config: Config, kind: LlamaKind, label: str) -> dict[str, Any]:
        """The fields of a Llama, from a config of a model type that differs from it by `kind`.

        Keys are read, and those left over are not refused.
        """
        heads, width = config.count("num_attention_heads"), config.count("hidden_size")
        size = config.count("head_dim", width // heads)
        layers = config.count("num_hidden_layers")
        positions = min(longest_text(config), MAX_POSITIONS)
        config.must_be("is_encoder_decoder", False)
        config.must_be("rope_interleaved", False)
        return {
            "label": label,
            "vocab_size": config.count("vocab_size"),
            "width": width,
            "layers": layers,
            "heads": Heads(
                heads, config.count("num_key_value_heads", heads), size, scale=size**-0.5
            ),
            "epsilon": config.number("rms_norm_eps", 1e-6),
            "rotary": _rotary(config, kind, size, positions, label),
            "windows": layer_windows(config, kind.windows, layers, positions, label),
            "activation": config.activation("hidden_act", "silu"),
            "tied_head": config.flag("tie_word_embeddings", False),
            "qkv_bias": _has_bias(config, kind.qkv_bias) or kind.always_qkv_bias,
            "out_bias": _has_bias(config, kind.out_bias),
            "mlp_bias": _has_bias(config, kind.mlp_bias),
            "head_norms": kind.head_norms,
            "positions": positions,
        }

    def with_balanced_keys(self) -> Self:
        if type(self) is not Llama or not self.qkv_bias or self.head_norms:
            return self
        heads = replace(self.heads, scale=self.heads.scale / WHOLE)
        return replace(self, heads=heads, balances_keys=True)

    def view(self, weights: Weights) -> Weights:
        return BalancedKeys(weights, self.heads) if self.balances_keys else weights

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        return (self._attention_block(at, index), self._feed_forward_block(at))

    @property
    def widest_window(self) -> int | None:
        return max((window for window in self.windows if window is not None), default=None)

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.norm")

    def encodings(self, g: Graph, positions: Positions) -> Sequence[PositionEncoding]:
        return [self.rotary.emit(g, positions)] * self.layers

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        name, heads = f"{at}.self_attn", self._heads_of(index)
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.input_layernorm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in "qkv"), bias=self.qkv_bias),
            mixer=SelfAttention(index, heads, norms if self.head_norms else None),
            out_proj=Linear.named(f"{name}.o_proj", bias=self.out_bias),
        )

    def _heads_of(self, index: int) -> Heads:
        """The heads of a layer, with its window."""
        return replace(self.heads, window=self.windows[index])

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.mlp"
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.post_attention_layernorm"),
            in_proj=Linear.named(f"{name}.gate_proj", f"{name}.up_proj", bias=self.mlp_bias),
            activation=Gate(self.activation),
            out_proj=Linear.named(f"{name}.down_proj", bias=self.mlp_bias),
        )

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)


def _rotary(config: Config, kind: LlamaKind, size: int, positions: int, label: str) -> Rotary:
    """The rotary positions of whole heads, or of a part where the model type may have one."""
    if kind.partial:
        return partial_rotary(config, size, rotated_numbers(config, size), positions, label)
    return whole_rotary(config, size, positions, label)


def _has_bias(config: Config, keys: tuple[str, ...]) -> bool:
    """Whether the first of these keys that the config states, or the class has, is true.

    Biases of other keys are passed over: a model type without such a key has none.
    """
    for key in ("attention_bias", "mlp_bias"):
        config.get(key)
    stated = [key for key in keys if config.states(key)]
    return any(config.flag(key, False) for key in (stated or keys)[:1])
