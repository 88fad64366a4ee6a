"""Llama and models built like it: SmolLM2, Qwen2.5, Qwen3, Mistral without sliding window.

Decoder-only: grouped-query attention with rotary positions, gated feed-forward, RMS norms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.components.blocks import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.feed_forward import Gate
from edgespec_export.components.heads import HeadNorms, Heads
from edgespec_export.components.linear import Linear
from edgespec_export.components.norm import RmsNorm
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.components.self_attention import SelfAttention
from edgespec_export.families.decoder_only import MAX_POSITIONS, DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.families.rope import inverse_frequencies
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Llama"]

DEFAULT_QWEN3_HEAD = 128
DEFAULT_WINDOW = 4096  # of a Mistral whose config has none, and of a Qwen that only asks for one


@dataclass(frozen=True, kw_only=True)
class Llama(DecoderOnly):
    """The shape of a Llama-like model and how it differs from others.

    Attributes:
        frequencies: of the rotary positions, [head size / 2].
        activation: of the feed-forward's gate.
        qkv_bias, out_bias, mlp_bias: which projections have one (Qwen2: only q, k and v).
        head_norms: q and k are normalised head by head (Qwen3).
    """

    family = "llama"
    model_types: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2", "qwen3")
    table, head = "model.embed_tokens.weight", "lm_head.weight"
    # Frequencies that follow from the config, and a copy of a tied head.
    redundant = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq|lm_head\.weight")

    frequencies: npt.NDArray[np.float32]
    activation: str
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: bool

    @classmethod
    def from_config(cls, values: dict[str, object], label: str) -> Self:
        config = Config(values, label)
        kind = config.need("model_type")
        heads = config.count("num_attention_heads")
        width = config.count("hidden_size")
        size = config.count("head_dim", DEFAULT_QWEN3_HEAD if kind == "qwen3" else width // heads)
        # Other model types have no such option, whatever their config says.
        bias = config.flag("attention_bias", False) and kind in ("llama", "qwen3")
        mlp_bias = config.flag("mlp_bias", False) and kind == "llama"
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size"),
            width=width,
            layers=config.count("num_hidden_layers"),
            heads=Heads(heads, config.count("num_key_value_heads", heads), size, scale=size**-0.5),
            epsilon=config.number("rms_norm_eps", 1e-6),
            frequencies=inverse_frequencies(config, size, label),
            activation=config.get("hidden_act", "silu"),
            tied_head=config.flag("tie_word_embeddings", False),
            qkv_bias=bias or kind == "qwen2",
            out_bias=bias,
            mlp_bias=mlp_bias,
            head_norms=kind == "qwen3",
            positions=min(config.count("max_position_embeddings"), MAX_POSITIONS),
        )
        config.must_be("hidden_act", "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
        config.must_be("is_encoder_decoder", False)
        config.must_be("rope_interleaved", False)
        _refuse_sliding_windows(config, kind, shape)
        config.refuse_the_rest(
            harmless={
                "intermediate_size",  # the matrices themselves have it
                "is_llama_config",  # a remark of SmolLM2's
            }
        )
        return shape

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        return (self._attention_block(at, index), self._feed_forward_block(at))

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("model.norm")

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        return [Rotary(self.frequencies, self.positions).emit(g, positions)] * self.layers

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        name = f"{at}.self_attn"
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.input_layernorm"),
            reads=Linear.named(*(f"{name}.{part}_proj" for part in "qkv"), bias=self.qkv_bias),
            middle=SelfAttention(index, self.heads, norms if self.head_norms else None),
            writes=Linear.named(f"{name}.o_proj", bias=self.out_bias),
        )

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.mlp"
        return FeedForwardBlock(
            name=name,
            norm=self._norm(f"{at}.post_attention_layernorm"),
            reads=Linear.named(f"{name}.gate_proj", f"{name}.up_proj", bias=self.mlp_bias),
            middle=Gate(self.activation),
            writes=Linear.named(f"{name}.down_proj", bias=self.mlp_bias),
        )

    def _norm(self, name: str) -> RmsNorm:
        return RmsNorm(f"{name}.weight", self.epsilon)


def _refuse_sliding_windows(config: Config, kind: str, shape: Llama) -> None:
    """Refuses a window, which would need a cache that forgets, unless no text can be longer."""
    window = _window(config, kind)
    if window is not None and window < shape.positions:
        said = "config.json says" if config.states("sliding_window") else "by default,"
        raise EdgespecError(
            f"{shape.label}: {said} sliding_window = {window!r}; edgespec exports only models that "
            f"attend to all of their {shape.positions} positions"
        )
    config.must_be("layer_types", ["full_attention"] * len(config.get("layer_types", ())))


def _window(config: Config, kind: str) -> int | None:
    """How many positions a layer attends to, as transformers reads it; None means all of them.

    A Qwen config states a window that is used only with `use_sliding_window`. Mistral's window is
    always used, and only a null means none. Transformers' Llama has no window, so one in the config
    has no effect there and is ignored here too.
    """
    asked = config.flag("use_sliding_window", kind == "llama")
    window: int | None = config.get("sliding_window")
    config.get("max_window_layers")
    if kind != "mistral" and not asked:
        return None
    return window if kind == "llama" or config.states("sliding_window") else DEFAULT_WINDOW
