"""Llama and what is built like it, in plain JAX: SmolLM2, Qwen2.5, Qwen3, Mistral."""

from __future__ import annotations

import jax.numpy as jnp

from edgespec_export.families.llama import Llama
from edgespec_jax.jax_blocks import (
    HEAD,
    HIDDEN,
    Cache,
    Params,
    activation,
    append,
    attend,
    heads_of,
    linear,
    rms_norm,
)
from jax import Array

__all__ = ["JaxLlama"]

EMBEDDING = "model.embed_tokens.weight"


class JaxLlama:
    """A decoder as `edgespec_jax.jax_blocks.Network`."""

    def __init__(self, shape: Llama) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.layers = shape.layers
        self.kv_heads = shape.kv_heads
        self.head_size = shape.head_size

    def prefill(
        self, params: Params, cache: tuple[Cache, ...], prompt: Array, length: Array
    ) -> tuple[None, tuple[Cache, ...], Array, Array]:
        """Caches the prompt. What its padding writes lies behind the text and is overwritten."""
        _, cache = self._body(params, cache, prompt, jnp.int32(0))
        return None, cache, prompt[length - 1], length - 1

    def decode(
        self, params: Params, context: None, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        x, cache = self._body(params, cache, tokens, past)
        x = rms_norm(x, params["model.norm.weight"], self.shape.epsilon)
        return linear(x, params[HEAD]).astype(jnp.float32), cache

    def _body(
        self, params: Params, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        """All layers: [m, width]."""
        heads = self.shape.heads
        queries = past + jnp.arange(len(tokens))
        angles = queries[:, None].astype(jnp.float32) * jnp.asarray(self.shape.frequencies)
        seen = jnp.arange(cache[0].keys.shape[1]) <= queries[:, None]
        bias = jnp.where(seen, 0.0, HIDDEN)[None]
        x = params[EMBEDDING][tokens]
        filled = []
        for layer, own in enumerate(cache):
            block = f"model.layers.{layer}"
            h = rms_norm(x, params[f"{block}.input_layernorm.weight"], self.shape.epsilon)
            q, k, v = self._projections(params, h, f"{block}.self_attn", angles)
            own = append(own, k, v, past)
            filled.append(own)
            out = attend(q, own.keys, own.values, bias, heads.scale)
            x = x + _project(params, out, f"{block}.self_attn.o_proj")
            h = rms_norm(x, params[f"{block}.post_attention_layernorm.weight"], self.shape.epsilon)
            x = x + self._feed_forward(params, h, f"{block}.mlp")
        return x, tuple(filled)

    def _projections(
        self, params: Params, h: Array, at: str, angles: Array
    ) -> tuple[Array, Array, Array]:
        """Queries [heads, m, size]; keys and values [kv_heads, m, size]."""
        heads = self.shape.heads
        q = heads_of(_project(params, h, f"{at}.q_proj"), heads.count)
        k, v = (heads_of(_project(params, h, f"{at}.{part}_proj"), heads.kv_count) for part in "kv")
        if self.shape.head_norms:
            q = rms_norm(q, params[f"{at}.q_norm.weight"], self.shape.epsilon)
            k = rms_norm(k, params[f"{at}.k_norm.weight"], self.shape.epsilon)
        return _rotate(q, angles), _rotate(k, angles), v

    def _feed_forward(self, params: Params, h: Array, at: str) -> Array:
        gate = activation(_project(params, h, f"{at}.gate_proj"), self.shape.activation)
        return _project(params, gate * _project(params, h, f"{at}.up_proj"), f"{at}.down_proj")


def _project(params: Params, x: Array, name: str) -> Array:
    """A linear layer, with a bias where the checkpoint holds one."""
    return linear(x, params[f"{name}.weight"], params.get(f"{name}.bias"))


def _rotate(x: Array, angles: Array) -> Array:
    """Rotary positions (arXiv 2104.09864) on [heads, m, size]: the two halves, not neighbours."""
    cos, sin = jnp.cos(angles), jnp.sin(angles)  # [m, size / 2]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)
