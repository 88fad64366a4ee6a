"""The numbers that the JAX networks need from a checkpoint's config.json.

These classes read only keys whose meaning they implement. They do not look for unknown keys:
`edgespec_jax.jax_checkpoint` has refused those when it opened the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_jax.jax_rope import rope_frequencies

__all__ = ["LLAMA_TYPES", "T5_TYPES", "LlamaConfig", "T5Config"]

LLAMA_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # values of `model_type`
T5_TYPES = ("t5", "mt5")
QWEN3_HEAD_SIZE = 128  # the default of transformers' Qwen3Config

Values = Mapping[str, Any]


@dataclass(frozen=True)
class LlamaConfig:
    """A decoder-only model: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

    Attributes:
        heads, kv_heads: query heads, and the key-value heads that they share in groups.
        epsilon: of the RMS norms.
        activation: of the feed-forward block's gate, by its name in config.json.
        head_norms: queries and keys are normalised per head (Qwen3).
        frequencies: RoPE, radians per position: [head_size / 2].
    """

    vocab_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    activation: str
    head_norms: bool
    frequencies: npt.NDArray[np.float32]

    @classmethod
    def from_values(cls, values: Values) -> LlamaConfig:
        """From the values of config.json.

        Raises:
            EdgespecError: a RoPE scaling that is not implemented here.
        """
        qwen3 = values["model_type"] == "qwen3"
        heads = values["num_attention_heads"]
        default_size = QWEN3_HEAD_SIZE if qwen3 else values["hidden_size"] // heads
        head_size = _value(values, "head_dim", default_size)
        return cls(
            vocab_size=values["vocab_size"],
            layers=values["num_hidden_layers"],
            heads=heads,
            kv_heads=_value(values, "num_key_value_heads", heads),
            head_size=head_size,
            epsilon=_value(values, "rms_norm_eps", 1e-6),
            activation=_value(values, "hidden_act", "silu"),
            head_norms=qwen3,
            frequencies=rope_frequencies(values, head_size),
        )


@dataclass(frozen=True)
class T5Config:
    """An encoder-decoder: T5 v1.0, v1.1, flan-t5, mT5, ByT5.

    Attributes:
        width: of the residual stream (d_model).
        layers: of the decoder.
        epsilon: of the RMS norms.
        activation: of the feed-forward block, by its name in config.json.
        gated: the feed-forward block multiplies two projections.
        scale_outputs: the decoder's output is multiplied by width^-½ before the head (v1.0).
        buckets, max_distance: of the relative positions.
        start_token: the token id that the decoder starts with.
    """

    vocab_size: int
    width: int
    encoder_layers: int
    layers: int
    heads: int
    head_size: int
    epsilon: float
    activation: str
    gated: bool
    scale_outputs: bool
    buckets: int
    max_distance: int
    start_token: int

    @classmethod
    def from_values(cls, values: Values) -> T5Config:
        """From the values of config.json."""
        feed_forward = _value(values, "feed_forward_proj", "relu")
        activation = feed_forward.removeprefix("gated-")
        tied = _value(values, "tie_word_embeddings", True)
        scales = _value(values, "scale_decoder_outputs", tied)
        pad_token = _value(values, "pad_token_id", 0)
        return cls(
            vocab_size=values["vocab_size"],
            width=values["d_model"],
            encoder_layers=values["num_layers"],
            layers=_value(values, "num_decoder_layers", values["num_layers"]),
            heads=values["num_heads"],
            head_size=values["d_kv"],
            epsilon=_value(values, "layer_norm_epsilon", 1e-6),
            # transformers reads this one name as the approximation by tanh.
            activation="gelu_new" if feed_forward == "gated-gelu" else activation,
            gated=feed_forward != activation,
            scale_outputs=scales and values["model_type"] == "t5",
            buckets=_value(values, "relative_attention_num_buckets", 32),
            max_distance=_value(values, "relative_attention_max_distance", 128),
            start_token=_value(values, "decoder_start_token_id", pad_token),
        )


def _value(values: Values, key: str, default: Any) -> Any:
    """The value of a key; `default` where it is absent or null."""
    value = values.get(key)
    return default if value is None else value
