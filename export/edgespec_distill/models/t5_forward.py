"""T5's training mathematics over the parameters of a transformers model.

The parameters stay where transformers keeps them, so what is trained is saved, generated from and
exported as an ordinary checkpoint. The arithmetic is its own: transformers' forward pass spends
four fifths of a training step on a CPU in elementwise work and in drawing dropout masks; this one
draws one mask per sequence and feature, as T5 was trained (dropout is broadcast along the length).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["decode", "encode", "head", "rms_norm", "scaled"]

Watch = Callable[[int, Tensor], None]
"""Called for each decoder layer with its cross-attention scores [batch, heads, target, source]."""


def encode(model: Any, ids: Tensor, mask: Tensor, dropout: float = 0.0) -> Tensor:
    """Hidden states [batch, source, d_model] of source tokens [batch, source].

    `mask` [batch, 1, 1, source] is added to the scores: 0 for a token, very negative for padding.
    """
    stack = model.encoder
    hidden = _dropped(functional.embedding(ids, model.shared.weight), dropout)
    bias = stack.block[0].layer[0].SelfAttention.compute_bias(ids.shape[1], ids.shape[1]) + mask
    for block in stack.block:
        hidden = hidden + _dropped(_self_attention(block.layer[0], hidden, bias), dropout)
        hidden = hidden + _dropped(_feed_forward(block.layer[1], hidden, dropout), dropout)
    return _dropped(rms_norm(stack.final_layer_norm, hidden), dropout)


def decode(
    model: Any,
    source: Tensor,
    mask: Tensor,
    ids: Tensor,
    dropout: float = 0.0,
    watch: Watch | None = None,
) -> Tensor:
    """Hidden states [batch, target, d_model] after each of the decoder's tokens [batch, target].

    `source` and `mask` are what `encode` returned and was given; position j of `ids` holds the
    token before the one that row j predicts (the first is the decoder's start token).
    """
    stack = model.decoder
    length = ids.shape[1]
    hidden = _dropped(functional.embedding(ids, model.shared.weight), dropout)
    bias = stack.block[0].layer[0].SelfAttention.compute_bias(length, length)
    future = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)
    bias = bias.masked_fill(future, torch.finfo(hidden.dtype).min / 2)
    for depth, block in enumerate(stack.block):
        hidden = hidden + _dropped(_self_attention(block.layer[0], hidden, bias), dropout)
        looked = _cross_attention(block.layer[1], hidden, source, mask, depth, watch)
        hidden = hidden + _dropped(looked, dropout)
        hidden = hidden + _dropped(_feed_forward(block.layer[2], hidden, dropout), dropout)
    return _dropped(rms_norm(stack.final_layer_norm, hidden), dropout)


def head(model: Any, hidden: Tensor) -> Tensor:
    """Logits [..., vocabulary] of hidden states [..., d_model]."""
    return functional.linear(scaled(model, hidden), model.lm_head.weight)


def scaled(model: Any, hidden: Tensor) -> Tensor:
    """Hidden states as the head takes them."""
    scales = getattr(model.config, "scale_decoder_outputs", False)  # mT5's config has no such key
    return hidden * model.config.d_model**-0.5 if scales else hidden


def rms_norm(norm: Any, x: Tensor) -> Tensor:
    """What a norm of transformers (T5's, Llama's) computes, in one operation."""
    return functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _dropped(x: Tensor, rate: float) -> Tensor:
    if not rate:
        return x
    keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= rate
    return x * (keep.to(x.dtype) / (1 - rate))


def _self_attention(layer: Any, hidden: Tensor, bias: Tensor) -> Tensor:
    x = rms_norm(layer.layer_norm, hidden)
    attention = layer.SelfAttention
    scores, value = _scores(attention, x, x)
    return _weighted(attention, scores + bias, value)


def _cross_attention(
    layer: Any, hidden: Tensor, source: Tensor, mask: Tensor, depth: int, watch: Watch | None
) -> Tensor:
    attention = layer.EncDecAttention
    scores, value = _scores(attention, rms_norm(layer.layer_norm, hidden), source)
    scores = scores + mask
    if watch is not None:
        watch(depth, scores)
    return _weighted(attention, scores, value)


def _scores(attention: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [batch, heads, x, memory], unscaled as T5 has them, and values per head."""
    heads, size = attention.n_heads, attention.key_value_proj_dim

    def split(projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:2], heads, size).transpose(1, 2)

    query, key = split(attention.q(x)), split(attention.k(memory))
    return query @ key.transpose(-1, -2), split(attention.v(memory))


def _weighted(attention: Any, scores: Tensor, value: Tensor) -> Tensor:
    mixed = torch.softmax(scores, -1) @ value
    added: Tensor = attention.o(mixed.transpose(1, 2).flatten(2))
    return added


def _feed_forward(layer: Any, hidden: Tensor, dropout: float) -> Tensor:
    x, dense = rms_norm(layer.layer_norm, hidden), layer.DenseReluDense
    if hasattr(dense, "wi"):
        inner = dense.act(dense.wi(x))
    else:
        inner = dense.act(dense.wi_0(x)) * dense.wi_1(x)
    added: Tensor = dense.wo(_dropped(inner, dropout))
    return added
