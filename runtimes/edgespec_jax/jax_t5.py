"""T5 in plain JAX: v1.0, v1.1, flan-t5 and mT5 shapes. Raffel et al. (2020, arXiv 1910.10683)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from edgespec_export.components.positions import relative_buckets
from edgespec_export.families.t5 import T5
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

__all__ = ["JaxT5", "Source"]

EMBEDDING = "shared.weight"


class Source(NamedTuple):
    """The text to be continued from, as the decoder's layers see it.

    Attributes:
        cross: keys and values of each layer, [heads, source capacity, size].
        bias: [1, 1, source capacity]: hides the padding.
    """

    cross: tuple[Cache, ...]
    bias: Array


class JaxT5:
    """An encoder-decoder as `edgespec_jax.jax_blocks.Network`."""

    def __init__(self, shape: T5) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.layers = shape.layers
        self.kv_heads = shape.kv_heads
        self.head_size = shape.head_size

    def prefill(
        self, params: Params, cache: tuple[Cache, ...], prompt: Array, length: Array
    ) -> tuple[Source, tuple[Cache, ...], Array, Array]:
        """Encodes the source; the decoder starts at position 0 with the start token."""
        heads = self.shape.heads.count
        hidden = jnp.where(jnp.arange(len(prompt)) < length, 0.0, HIDDEN)[None, None]
        x = self._encode(params, prompt, hidden)
        cross = []
        for layer in range(self.shape.layers):
            at = f"decoder.block.{layer}.layer.1.EncDecAttention"
            keys, values = (linear(x, params[f"{at}.{part}.weight"]) for part in "kv")
            cross.append(Cache(heads_of(keys, heads), heads_of(values, heads)))
        start = jnp.int32(self.shape.start_token)
        return Source(tuple(cross), hidden), cache, start, jnp.int32(0)

    def decode(
        self,
        params: Params,
        context: Source,
        cache: tuple[Cache, ...],
        tokens: Array,
        past: Array,
    ) -> tuple[Array, tuple[Cache, ...]]:
        shape, heads = self.shape, self.shape.heads
        x = params[EMBEDDING][tokens]
        bias = self._decoder_bias(params, past + jnp.arange(len(tokens)), cache[0].keys.shape[1])
        filled = []
        for layer, (own, cross) in enumerate(zip(cache, context.cross, strict=True)):
            block = f"decoder.block.{layer}.layer"
            at = f"{block}.0.SelfAttention"
            h = self._norm(params, x, f"{block}.0")
            q, k, v = (
                heads_of(linear(h, params[f"{at}.{part}.weight"]), heads.count) for part in "qkv"
            )
            own = append(own, k, v, past)
            filled.append(own)
            out = attend(q, own.keys, own.values, bias, heads.scale)
            x = x + linear(out, params[f"{at}.o.weight"])
            at = f"{block}.1.EncDecAttention"
            h = self._norm(params, x, f"{block}.1")
            q = heads_of(linear(h, params[f"{at}.q.weight"]), heads.count)
            out = attend(q, cross.keys, cross.values, context.bias, heads.scale)
            x = x + linear(out, params[f"{at}.o.weight"])
            x = self._feed_forward(params, x, f"{block}.2")
        x = rms_norm(x, params["decoder.final_layer_norm.weight"], shape.epsilon)
        if shape.scale_outputs:
            x = x * shape.width**-0.5
        return linear(x, params[HEAD]).astype(jnp.float32), tuple(filled)

    def _encode(self, params: Params, tokens: Array, hidden: Array) -> Array:
        """[source capacity, width]; rows of padding hold nothing of use."""
        heads = self.shape.heads
        x = params[EMBEDDING][tokens]
        bias = self._encoder_bias(params, len(tokens)) + hidden
        for layer in range(self.shape.encoder_layers):
            block = f"encoder.block.{layer}.layer"
            at = f"{block}.0.SelfAttention"
            h = self._norm(params, x, f"{block}.0")
            q, k, v = (
                heads_of(linear(h, params[f"{at}.{part}.weight"]), heads.count) for part in "qkv"
            )
            x = x + linear(attend(q, k, v, bias, heads.scale), params[f"{at}.o.weight"])
            x = self._feed_forward(params, x, f"{block}.1")
        return rms_norm(x, params["encoder.final_layer_norm.weight"], self.shape.epsilon)

    def _norm(self, params: Params, x: Array, block: str) -> Array:
        return rms_norm(x, params[f"{block}.layer_norm.weight"], self.shape.epsilon)

    def _feed_forward(self, params: Params, x: Array, block: str) -> Array:
        h = self._norm(params, x, block)
        dense = f"{block}.DenseReluDense"
        if self.shape.gated:
            gate = activation(linear(h, params[f"{dense}.wi_0.weight"]), self.shape.activation)
            h = gate * linear(h, params[f"{dense}.wi_1.weight"])
        else:
            h = activation(linear(h, params[f"{dense}.wi.weight"]), self.shape.activation)
        return x + linear(h, params[f"{dense}.wo.weight"])

    def _encoder_bias(self, params: Params, length: int) -> Array:
        """[heads, length, length]."""
        places = np.arange(length)
        ahead = places - places[:, None]  # key - query
        return self._learned(params, "encoder", jnp.asarray(self._buckets(ahead, True)))

    def _decoder_bias(self, params: Params, queries: Array, capacity: int) -> Array:
        """[heads, m, capacity]; what lies ahead of a query is hidden."""
        keys = jnp.arange(capacity)
        behind = queries[:, None] - keys
        by_distance = jnp.asarray(self._buckets(-np.arange(capacity), False))
        buckets = by_distance[jnp.maximum(behind, 0)]
        return jnp.where(behind >= 0, self._learned(params, "decoder", buckets), HIDDEN)

    def _buckets(self, relative: npt.NDArray[np.int64], both_ways: bool) -> npt.NDArray[np.int64]:
        return relative_buckets(relative, both_ways, self.shape.buckets, self.shape.max_distance)

    def _learned(self, params: Params, stack: str, buckets: Array) -> Array:
        """The bias of each bucket: [queries, keys] to float32 [heads, queries, keys]."""
        name = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        return jnp.moveaxis(params[name].astype(jnp.float32)[buckets], -1, 0)
