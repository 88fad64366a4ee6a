"""Llama and models of the same architecture in plain JAX: SmolLM2, Mistral, Qwen2.5, Qwen3."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp

from edgespec_jax.jax_blocks import (
    ACTIVATIONS,
    HEAD,
    HIDDEN,
    Cache,
    Params,
    append,
    attend,
    heads_of,
    linear,
    rms_norm,
)
from edgespec_jax.jax_config import LlamaConfig
from edgespec_jax.jax_rope import apply_rope
from jax import Array

__all__ = ["JaxLlama"]


class JaxLlama:
    """A decoder-only model as `edgespec_jax.jax_blocks.Network`.

    Attributes:
        embedding: the name of the embedding table.
        unused_tensors: tensors of a checkpoint that the model does not need.
        fusions: see `edgespec_jax.jax_t5.JaxT5`.
    """

    embedding = "model.embed_tokens.weight"
    unused_tensors: tuple[str, ...] = ()
    fusions: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, config: LlamaConfig) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.layers = config.layers
        self.kv_heads = config.kv_heads
        self.head_size = config.head_size

    def prefill(
        self, params: Params, cache: tuple[Cache, ...], prompt: Array, length: Array
    ) -> tuple[None, tuple[Cache, ...], Array, Array]:
        """Caches the prompt. The padding's keys and values come after it and get overwritten."""
        _, cache = self._body(params, cache, prompt, jnp.int32(0))
        return None, cache, prompt[length - 1], length - 1

    def decode(
        self, params: Params, context: None, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        x, cache = self._body(params, cache, tokens, past)
        x = rms_norm(x, params["model.norm.weight"], self.config.epsilon)
        return linear(x, params[HEAD]).astype(jnp.float32), cache

    def _body(
        self, params: Params, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        """The residual stream after all layers [m, width], and the cache."""
        positions = (past + jnp.arange(len(tokens)))[:, None]
        angles = positions.astype(jnp.float32) * jnp.asarray(self.config.frequencies)
        visible = jnp.arange(cache[0].keys.shape[1]) <= positions
        bias = jnp.where(visible, 0.0, HIDDEN)[None]
        x = params[self.embedding][tokens]
        new_cache = []
        for layer, layer_cache in enumerate(cache):
            block = f"model.layers.{layer}"
            h = rms_norm(x, params[f"{block}.input_layernorm.weight"], self.config.epsilon)
            q, k, v = self._projections(params, h, f"{block}.self_attn", angles)
            layer_cache = append(layer_cache, k, v, past)
            new_cache.append(layer_cache)
            out = attend(q, layer_cache.keys, layer_cache.values, bias, self.head_size**-0.5)
            x = x + _project(params, out, f"{block}.self_attn.o_proj")
            h = rms_norm(x, params[f"{block}.post_attention_layernorm.weight"], self.config.epsilon)
            x = x + self._feed_forward(params, h, f"{block}.mlp")
        return x, tuple(new_cache)

    def _projections(
        self, params: Params, h: Array, at: str, angles: Array
    ) -> tuple[Array, Array, Array]:
        """Queries [heads, m, size]; keys and values [kv_heads, m, size]."""
        q = heads_of(_project(params, h, f"{at}.q_proj"), self.config.heads)
        k, v = (heads_of(_project(params, h, f"{at}.{part}_proj"), self.kv_heads) for part in "kv")
        if self.config.head_norms:
            q = rms_norm(q, params[f"{at}.q_norm.weight"], self.config.epsilon)
            k = rms_norm(k, params[f"{at}.k_norm.weight"], self.config.epsilon)
        return apply_rope(q, angles), apply_rope(k, angles), v

    def _feed_forward(self, params: Params, h: Array, at: str) -> Array:
        gate = ACTIVATIONS[self.config.activation](_project(params, h, f"{at}.gate_proj"))
        return _project(params, gate * _project(params, h, f"{at}.up_proj"), f"{at}.down_proj")


def _project(params: Params, x: Array, name: str) -> Array:
    """A linear layer, with a bias where the checkpoint has one."""
    return linear(x, params[f"{name}.weight"], params.get(f"{name}.bias"))
