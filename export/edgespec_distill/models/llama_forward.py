"""The forward pass of Llama-like models over the parameters of a transformers model.

As in `t5_forward`, the parameters stay in the transformers model and only the arithmetic differs.
The cache is written in place and attention over it repeats no key, which makes generation several
times faster on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.models.rms_norm import rms_norm

__all__ = [
    "Cache",
    "head_size",
    "hidden_states",
    "repeated",
    "rotary_angles",
    "through_layer",
]

Angles = tuple[Tensor, Tensor]
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Cache:
    """Keys and values of all layers, written in place.

    Attributes:
        keys, values: [layers, rows, key-value heads, capacity, head size].
    """

    keys: Tensor
    values: Tensor

    @staticmethod
    def empty(model: Any, rows: int, capacity: int) -> Cache:
        """Zeros, with room for `capacity` positions in each row."""
        config = model.config
        heads, size = config.num_key_value_heads, head_size(config)
        shape = (config.num_hidden_layers, rows, heads, capacity, size)
        keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
        return Cache(keys, torch.zeros_like(keys))

    def __getitem__(self, rows: slice | Tensor) -> Cache:
        """The cache of these rows; a slice shares their memory."""
        return Cache(self.keys[:, rows], self.values[:, rows])


def hidden_states(
    model: Any,
    ids: Tensor,
    first: Tensor | None = None,
    cache: Cache | None = None,
    feature_layers: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """Hidden states [rows, m, width] after each of the tokens [rows, m], and features.

    Args:
        first: [rows] the position of each row's first token; None: every row starts at 0.
        cache: keys and values are written there, and read if `first` is given; None: neither.
        feature_layers: layers, counted from 1, whose outputs are the second result,
            [rows, m, layers · width].
    """
    positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
    if first is not None:
        positions = positions + first[:, None]
    stack = model.model
    x = functional.embedding(ids, stack.embed_tokens.weight)
    angles = rotary_angles(stack, x, positions)
    features = [x[..., :0]]
    for depth, layer in enumerate(stack.layers):
        attention = partial(_attention, cache=None, positions=positions)
        if cache is not None:
            layer_cache = Cache(cache.keys[depth], cache.values[depth])
            attention = partial(
                _attention if first is None else _attention_over_cache,
                cache=layer_cache,
                positions=positions,
            )
        x = through_layer(layer, x, angles, attention)
        if depth + 1 in feature_layers:
            features.append(x)
    return rms_norm(stack.norm, x), torch.cat(features, -1)


def rotary_angles(stack: Any, x: Tensor, positions: Tensor) -> Angles:
    """cos and sin for `through_layer` at these positions [rows, m], in the type of x."""
    cos, sin = stack.rotary_emb(x, positions)
    return cos[:, None], sin[:, None]


def through_layer(layer: Any, x: Tensor, angles: Angles, attention: Attention) -> Tensor:
    """The residual stream [rows, m, width] after a layer.

    Args:
        attention: of queries, keys and values [rows, heads, m, head size]; its result has the
            shape of the queries.
    """
    q, k, v = _projections(layer.self_attn, rms_norm(layer.input_layernorm, x))
    out = attention(_apply_rope(q, *angles), _apply_rope(k, *angles), v)
    x = x + layer.self_attn.o_proj(out.transpose(1, 2).flatten(2))
    added: Tensor = layer.mlp(rms_norm(layer.post_attention_layernorm, x))
    return x + added


def repeated(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values, repeated for each of the query heads that share them."""
    repeats = q.shape[1] // k.shape[1]
    return k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)


def head_size(config: Any) -> int:
    """The width of one head."""
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def _projections(attention: Any, h: Tensor) -> list[Tensor]:
    """Queries, keys and values, [rows, heads, m, head size] each."""
    shape = (*h.shape[:2], -1, attention.head_dim)
    q, k, v = (getattr(attention, f"{part}_proj")(h).view(shape) for part in "qkv")
    if hasattr(attention, "q_norm"):
        q, k = rms_norm(attention.q_norm, q), rms_norm(attention.k_norm, k)
    return [part.transpose(1, 2) for part in (q, k, v)]


def _apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def _write(cache: Cache, k: Tensor, v: Tensor, positions: Tensor) -> None:
    """Writes k and v [rows, heads, m, size] at each row's positions [rows, m]."""
    rows = torch.arange(len(positions), device=positions.device)[:, None]
    cache.keys[rows, :, positions] = k.transpose(1, 2)
    cache.values[rows, :, positions] = v.transpose(1, 2)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, *, cache: Cache | None, positions: Tensor
) -> Tensor:
    """Attention to the tokens of this call, which start their texts; cached if there is a cache."""
    if cache is not None:
        _write(cache, k, v, positions)
    return functional.scaled_dot_product_attention(q, *repeated(q, k, v), is_causal=True)


def _attention_over_cache(
    q: Tensor, k: Tensor, v: Tensor, *, cache: Cache, positions: Tensor
) -> Tensor:
    """Attention of one query per row and head to the whole cache.

    The query heads that share a key head are passed as the queries of one text, so no key is
    repeated.
    """
    _write(cache, k, v, positions)
    end = int(positions.max()) + 1
    heads = cache.keys.shape[1]
    hidden = torch.arange(end, device=q.device) > positions
    mask = torch.zeros(hidden.shape, dtype=q.dtype, device=q.device)
    mask = mask.masked_fill(hidden, -torch.inf)[:, None, None]
    grouped = q.view(len(q), heads, -1, q.shape[-1])
    out = functional.scaled_dot_product_attention(
        grouped,
        cache.keys[:, :, :end],
        cache.values[:, :, :end],
        attn_mask=mask.expand(-1, 1, grouped.shape[2], -1),
    )
    return out.view(q.shape)
