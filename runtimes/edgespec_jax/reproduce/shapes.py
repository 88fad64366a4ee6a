"""T5 v1.1 in its published sizes with random weights, for timing without checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax.typing import DTypeLike

import jax
from edgespec_jax.jax_blocks import HEAD, outputs_first
from edgespec_jax.jax_config import T5Config
from edgespec_jax.jax_t5 import JaxT5
from edgespec_jax.jax_weights import LOOKUP_TABLES, JaxModel
from jax import Array

__all__ = ["SIZES", "config_of", "random_t5"]

# The published configs: width, feed-forward width, heads, layers of encoder and of decoder.
SIZES = {
    "T5-small": (512, 1024, 6, 8),
    "T5-base": (768, 2048, 12, 12),
    "T5-large": (1024, 2816, 16, 24),
    "T5-XXL": (4096, 10240, 64, 24),
}
VOCABULARY, HEAD_SIZE = 32128, 64


def config_of(size: str, divisor: int = 1) -> dict[str, Any]:
    """The values of config.json; `divisor` divides widths, heads and vocabulary, not layers."""
    width, feed_forward, heads, layers = SIZES[size]
    return {
        "model_type": "t5",
        "vocab_size": VOCABULARY // divisor,
        "d_model": width // divisor,
        "d_kv": HEAD_SIZE,
        "d_ff": feed_forward // divisor,
        "num_layers": layers,
        "num_heads": max(1, heads // divisor),
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "decoder_start_token_id": 0,
    }


def random_t5(config: dict[str, Any], dtype: DTypeLike, seed: int = 0) -> JaxModel:
    """A T5 whose weights are drawn on the device one by one, so XXL needs 22 GB and no more."""
    key = jax.random.key(seed)

    @partial(jax.jit, static_argnums=(1, 2))
    def draw(key: Array, shape: tuple[int, ...], scale: float) -> Array:
        return jax.random.normal(key, shape, dtype) * scale

    params = {}
    for number, (name, shape) in enumerate(_tensors(config)):
        swapped = outputs_first() and not name.endswith(LOOKUP_TABLES)
        axes = shape[::-1] if swapped else shape
        drawn = draw(jax.random.fold_in(key, number), axes, shape[0] ** -0.5)
        params[name] = jnp.ones(shape, dtype) if len(shape) == 1 else drawn
    return JaxModel(JaxT5(T5Config.from_values(config)), params, ())


def _tensors(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a v1.1 model, with the names that `JaxT5` has; matrices are [in, out]."""
    width, feed_forward = config["d_model"], config["d_ff"]
    rows = config["num_heads"] * config["d_kv"]
    yield "shared.weight", (config["vocab_size"], width)
    yield HEAD, (width, config["vocab_size"])
    for stack, attentions in (("encoder", 1), ("decoder", 2)):
        table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield table, (32, config["num_heads"])
        yield f"{stack}.final_layer_norm.weight", (width,)
        for layer in range(config["num_layers"]):
            block = f"{stack}.block.{layer}.layer"
            for index, kind in enumerate(("SelfAttention", "EncDecAttention")[:attentions]):
                for parts in ("qkv",) if index == 0 else ("q", "kv"):
                    yield f"{block}.{index}.{kind}.{parts}.weight", (width, len(parts) * rows)
                yield f"{block}.{index}.{kind}.o.weight", (rows, width)
            for index in range(attentions + 1):
                yield f"{block}.{index}.layer_norm.weight", (width,)
            dense = f"{block}.{attentions}.DenseReluDense"
            yield f"{dense}.wi.weight", (width, 2 * feed_forward)
            yield f"{dense}.wo.weight", (feed_forward, width)
