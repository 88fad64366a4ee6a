"""The forward pass of T5 over the parameters of a transformers model.

The parameters stay in the transformers model, so a trained model is saved and exported as an
ordinary checkpoint. Only the arithmetic differs: transformers' forward pass spends most of a
training step on a CPU in elementwise operations.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgespec_distill.models.rms_norm import RmsNorm, rms_norm

__all__ = [
    "attention_output",
    "attention_scores",
    "causal_bias",
    "decode",
    "encode",
    "encoder_stream",
    "feed_forward_hidden",
    "scaled",
    "self_attention",
    "source_bias",
]


class T5Attention(Protocol):
    """transformers' `T5Attention`: `n_heads` heads of `key_value_proj_dim` columns."""

    n_heads: int
    key_value_proj_dim: int
    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    o: nn.Linear


class SelfAttentionLayer(Protocol):
    """transformers' `T5LayerSelfAttention`."""

    layer_norm: RmsNorm
    SelfAttention: T5Attention


class CrossAttentionLayer(Protocol):
    """transformers' `T5LayerCrossAttention`."""

    layer_norm: RmsNorm
    EncDecAttention: T5Attention


class FeedForwardLayer(Protocol):
    """transformers' `T5LayerFF`; the matrices of `DenseReluDense` depend on the config."""

    layer_norm: RmsNorm
    DenseReluDense: Any


def encode(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Hidden states [batch, source, d_model] of source tokens [batch, source].

    `mask` [batch, 1, 1, source] is added to the scores: 0 for a token, very negative for padding.
    """
    return rms_norm(model.encoder.final_layer_norm, encoder_stream(model, ids, mask))


def encoder_stream(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The same before the last norm."""
    stack = model.encoder
    hidden = functional.embedding(ids, model.shared.weight)
    bias = source_bias(model, ids, mask)
    for block in stack.block:
        hidden = hidden + self_attention(block.layer[0], hidden, bias)
        hidden = hidden + _feed_forward(block.layer[1], hidden)
    return hidden


def decode(model: Any, source: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
    """Hidden states [batch, target, d_model] after each of the decoder's tokens [batch, target].

    `source` is the result of `encode`, `mask` its argument. Position j of `ids` holds the token
    before the one that row j predicts; the first is the decoder's start token.
    """
    stack = model.decoder
    hidden = functional.embedding(ids, model.shared.weight)
    bias = causal_bias(model, ids, hidden.dtype)
    for block in stack.block:
        hidden = hidden + self_attention(block.layer[0], hidden, bias)
        hidden = hidden + _cross_attention(block.layer[1], hidden, source, mask)
        hidden = hidden + _feed_forward(block.layer[2], hidden)
    return rms_norm(stack.final_layer_norm, hidden)


def scaled(model: Any, hidden: Tensor) -> Tensor:
    """Hidden states as the head's input: v1.0 multiplies them by d_model^-½."""
    scales = getattr(model.config, "scale_decoder_outputs", False)  # mT5's config has no such key
    return hidden * model.config.d_model**-0.5 if scales else hidden


def source_bias(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The encoder's position bias [batch, heads, source, source], with the mask added."""
    attention = model.encoder.block[0].layer[0].SelfAttention
    bias: Tensor = attention.compute_bias(ids.shape[1], ids.shape[1])
    return bias + mask


def causal_bias(model: Any, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """The decoder's position bias [1, heads, target, target], very negative for later positions."""
    length = ids.shape[1]
    bias: Tensor = model.decoder.block[0].layer[0].SelfAttention.compute_bias(length, length)
    later = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)
    return bias.masked_fill(later, torch.finfo(dtype).min / 2)


def self_attention(layer: SelfAttentionLayer, hidden: Tensor, bias: Tensor) -> Tensor:
    """The block's output, without the residual stream."""
    x = rms_norm(layer.layer_norm, hidden)
    scores, values = attention_scores(layer.SelfAttention, x, x)
    return attention_output(layer.SelfAttention, scores + bias, values)


def attention_scores(attention: T5Attention, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [batch, heads, x, memory], which T5 does not scale, and values of each head."""
    heads, size = attention.n_heads, attention.key_value_proj_dim

    def split(projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:2], heads, size).transpose(1, 2)

    query, key = split(attention.q(x)), split(attention.k(memory))
    return query @ key.transpose(-1, -2), split(attention.v(memory))


def attention_output(attention: T5Attention, scores: Tensor, values: Tensor) -> Tensor:
    """The values weighted by the softmax of the scores, after the output projection."""
    mixed = torch.softmax(scores, -1) @ values
    output: Tensor = attention.o(mixed.transpose(1, 2).flatten(2))
    return output


def feed_forward_hidden(layer: FeedForwardLayer, hidden: Tensor) -> Tensor:
    """The feed-forward block's activations before its last projection."""
    x, dense = rms_norm(layer.layer_norm, hidden), layer.DenseReluDense
    if hasattr(dense, "wi"):
        activations: Tensor = dense.act(dense.wi(x))
    else:
        activations = dense.act(dense.wi_0(x)) * dense.wi_1(x)
    return activations


def _cross_attention(
    layer: CrossAttentionLayer, hidden: Tensor, source: Tensor, mask: Tensor
) -> Tensor:
    x = rms_norm(layer.layer_norm, hidden)
    scores, values = attention_scores(layer.EncDecAttention, x, source)
    return attention_output(layer.EncDecAttention, scores + mask, values)


def _feed_forward(layer: FeedForwardLayer, hidden: Tensor) -> Tensor:
    output: Tensor = layer.DenseReluDense.wo(feed_forward_hidden(layer, hidden))
    return output
