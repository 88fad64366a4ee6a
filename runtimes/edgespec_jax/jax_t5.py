"""T5 in plain JAX: v1.0, v1.1, flan-t5 and mT5. Raffel et al. (2020, arXiv 1910.10683)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

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
    outputs_first,
    rms_norm,
)
from edgespec_jax.jax_config import T5Config
from edgespec_jax.jax_relative_positions import bucket_of_distance, bucket_of_offset
from jax import Array

__all__ = ["JaxT5", "Source"]

SCALE = 1.0  # T5 does not scale its attention scores
# From this width on, two rows take less time than one on a GPU: 0.88 of it in T5-XXL on an H200.
PAIRED_WIDTH = 2048


class Source(NamedTuple):
    """The encoded source text, as the decoder's cross-attention reads it.

    Attributes:
        cross: keys and values for each decoder layer, [heads, source capacity, size].
        bias: added to the scores, [1, 1, source capacity]: hides the padding.
    """

    cross: tuple[Cache, ...]
    bias: Array


class JaxT5:
    """An encoder-decoder as `edgespec_jax.jax_blocks.Network`.

    Attributes:
        embedding: the name of the embedding table.
        unused_tensors: tensors of a checkpoint that the model does not need: copies of that table.
        fusions: matrices that multiply the same rows, by the name of the one matrix that they
            become.
    """

    embedding = "shared.weight"
    unused_tensors = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    fusions: Mapping[str, tuple[str, ...]] = {
        "SelfAttention.qkv": ("SelfAttention.q", "SelfAttention.k", "SelfAttention.v"),
        "EncDecAttention.kv": ("EncDecAttention.k", "EncDecAttention.v"),
        "DenseReluDense.wi": ("DenseReluDense.wi_0", "DenseReluDense.wi_1"),
    }

    def __init__(self, config: T5Config) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.layers = config.layers
        self.kv_heads = config.heads
        self.head_size = config.head_size

    def prefill(
        self, params: Params, cache: tuple[Cache, ...], prompt: Array, length: Array
    ) -> tuple[Source, tuple[Cache, ...], Array, Array]:
        """Encodes the source; the decoder starts at position 0 with the start token."""
        heads = self.config.heads
        hidden = jnp.where(jnp.arange(len(prompt)) < length, 0.0, HIDDEN)[None, None]
        x = self._encode(params, prompt, hidden)
        cross = []
        for layer in range(self.layers):
            at = f"decoder.block.{layer}.layer.1.EncDecAttention"
            keys, values = _parts(linear(x, params[f"{at}.kv.weight"]), 2)
            cross.append(Cache(heads_of(keys, heads), heads_of(values, heads)))
        start = jnp.int32(self.config.start_token)
        return Source(tuple(cross), hidden), cache, start, jnp.int32(0)

    def decode(
        self,
        params: Params,
        context: Source,
        cache: tuple[Cache, ...],
        tokens: Array,
        past: Array,
    ) -> tuple[Array, tuple[Cache, ...]]:
        if len(tokens) == 1 and outputs_first() and self.config.width >= PAIRED_WIDTH:
            # The second row's position is written again before it is read.
            logits, cache = self.decode(params, context, cache, jnp.repeat(tokens, 2), past)
            return logits[:1], cache
        x = params[self.embedding][tokens]
        bias = self._decoder_bias(params, past + jnp.arange(len(tokens)), cache[0].keys.shape[1])
        new_cache = []
        for layer, (layer_cache, cross) in enumerate(zip(cache, context.cross, strict=True)):
            block = f"decoder.block.{layer}.layer"
            q, k, v = self._projections(params, x, f"{block}.0", "SelfAttention", "qkv")
            layer_cache = append(layer_cache, k, v, past)
            new_cache.append(layer_cache)
            out = attend(q, layer_cache.keys, layer_cache.values, bias, SCALE)
            x = x + linear(out, params[f"{block}.0.SelfAttention.o.weight"])
            (q,) = self._projections(params, x, f"{block}.1", "EncDecAttention", "q")
            out = attend(q, cross.keys, cross.values, context.bias, SCALE)
            x = x + linear(out, params[f"{block}.1.EncDecAttention.o.weight"])
            x = self._feed_forward(params, x, f"{block}.2")
        x = rms_norm(x, params["decoder.final_layer_norm.weight"], self.config.epsilon)
        if self.config.scale_outputs:
            x = x * self.config.width**-0.5
        return linear(x, params[HEAD]).astype(jnp.float32), tuple(new_cache)

    def _encode(self, params: Params, tokens: Array, hidden: Array) -> Array:
        """Hidden states [source capacity, width]; those of the padding have no meaning."""
        x = params[self.embedding][tokens]
        bias = self._encoder_bias(params, len(tokens)) + hidden
        for layer in range(self.config.encoder_layers):
            block = f"encoder.block.{layer}.layer"
            q, k, v = self._projections(params, x, f"{block}.0", "SelfAttention", "qkv")
            out = attend(q, k, v, bias, SCALE)
            x = x + linear(out, params[f"{block}.0.SelfAttention.o.weight"])
            x = self._feed_forward(params, x, f"{block}.1")
        return rms_norm(x, params["encoder.final_layer_norm.weight"], self.config.epsilon)

    def _projections(
        self, params: Params, x: Array, block: str, attention: str, parts: str
    ) -> list[Array]:
        """The named projections ("qkv") of the normalised x, [heads, m, size] each."""
        h = self._norm(params, x, block)
        out = linear(h, params[f"{block}.{attention}.{parts}.weight"])
        return [heads_of(part, self.config.heads) for part in _parts(out, len(parts))]

    def _norm(self, params: Params, x: Array, block: str) -> Array:
        return rms_norm(x, params[f"{block}.layer_norm.weight"], self.config.epsilon)

    def _feed_forward(self, params: Params, x: Array, block: str) -> Array:
        """The residual stream with this block's output added."""
        h = self._norm(params, x, block)
        dense, activate = f"{block}.DenseReluDense", ACTIVATIONS[self.config.activation]
        h = linear(h, params[f"{dense}.wi.weight"])
        if self.config.gated:
            gate, h = _parts(h, 2)
            h = activate(gate) * h
        else:
            h = activate(h)
        return x + linear(h, params[f"{dense}.wo.weight"])

    def _encoder_bias(self, params: Params, length: int) -> Array:
        """[heads, length, length]."""
        positions = np.arange(length)
        offsets = positions - positions[:, None]  # key - query
        buckets = bucket_of_offset(offsets, self.config.buckets, self.config.max_distance)
        return self._learned_bias(params, "encoder", jnp.asarray(buckets))

    def _decoder_bias(self, params: Params, queries: Array, capacity: int) -> Array:
        """[heads, m, capacity]; hides the positions after each query's (queries: int32 [m])."""
        distances = queries[:, None] - jnp.arange(capacity)
        every = np.arange(capacity)
        by_distance = bucket_of_distance(every, self.config.buckets, self.config.max_distance)
        buckets = jnp.asarray(by_distance)[jnp.maximum(distances, 0)]
        return jnp.where(distances >= 0, self._learned_bias(params, "decoder", buckets), HIDDEN)

    def _learned_bias(self, params: Params, stack: str, buckets: Array) -> Array:
        """The bias of each bucket: int [queries, keys] to float32 [heads, queries, keys]."""
        name = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        return jnp.moveaxis(params[name].astype(jnp.float32)[buckets], -1, 0)


def _parts(x: Array, count: int) -> list[Array]:
    """The outputs of matrices that were fused: [m, count · size] to `count` times [m, size]."""
    return jnp.split(x, count, axis=1)
