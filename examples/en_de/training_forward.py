"""T5's forward pass with dropout, and with the cross-attention scores for guided alignment.

It is put together from the parts of `edgespec_distill.models.t5_forward`. One dropout mask is drawn
per sequence and feature, as T5 was trained (dropout is broadcast along the length); transformers
draws one for every number, which takes most of a training step on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.t5_forward import (
    attention_output,
    attention_scores,
    causal_bias,
    feed_forward_hidden,
    scaled,
    self_attention,
    source_bias,
)

__all__ = ["decode", "encode", "head"]

Watch = Callable[[int, Tensor], None]
"""Called for each decoder layer with its cross-attention scores [batch, heads, target, source]."""


def encode(model: Any, ids: Tensor, mask: Tensor, dropout: float) -> Tensor:
    """`t5_forward.encode` with dropout."""
    stack = model.encoder
    hidden = _dropped(functional.embedding(ids, model.shared.weight), dropout)
    bias = source_bias(model, ids, mask)
    for block in stack.block:
        hidden = hidden + _dropped(self_attention(block.layer[0], hidden, bias), dropout)
        hidden = hidden + _feed_forward(block.layer[1], hidden, dropout)
    return _dropped(rms_norm(stack.final_layer_norm, hidden), dropout)


def decode(
    model: Any, source: Tensor, mask: Tensor, ids: Tensor, dropout: float, watch: Watch | None
) -> Tensor:
    """`t5_forward.decode` with dropout; calls `watch` with the cross-attention scores."""
    stack = model.decoder
    hidden = _dropped(functional.embedding(ids, model.shared.weight), dropout)
    bias = causal_bias(model, ids, hidden.dtype)
    for depth, block in enumerate(stack.block):
        hidden = hidden + _dropped(self_attention(block.layer[0], hidden, bias), dropout)
        attention = block.layer[1].EncDecAttention
        x = rms_norm(block.layer[1].layer_norm, hidden)
        scores, values = attention_scores(attention, x, source)
        scores = scores + mask
        if watch is not None:
            watch(depth, scores)
        hidden = hidden + _dropped(attention_output(attention, scores, values), dropout)
        hidden = hidden + _feed_forward(block.layer[2], hidden, dropout)
    return _dropped(rms_norm(stack.final_layer_norm, hidden), dropout)


def head(model: Any, hidden: Tensor) -> Tensor:
    """Logits [..., vocabulary] of hidden states [..., d_model]."""
    return functional.linear(scaled(model, hidden), model.lm_head.weight)


def _feed_forward(layer: Any, hidden: Tensor, dropout: float) -> Tensor:
    inner = _dropped(feed_forward_hidden(layer, hidden), dropout)
    return _dropped(layer.DenseReluDense.wo(inner), dropout)


def _dropped(x: Tensor, rate: float) -> Tensor:
    if not rate:
        return x
    keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= rate
    return x * (keep.to(x.dtype) / (1 - rate))
