"""The mathematics of Llama and its kin over the parameters of a transformers model.

As in `t5`, the parameters stay where transformers keeps them and the arithmetic is its own: a cache
that is written in place, and attention that repeats no key, write several times faster on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.models.t5_forward import rms_norm

__all__ = [
    "Cache",
    "head_size",
    "hidden_states",
    "repeated",
    "rotary_angles",
    "through_layer",
]

Angles = tuple[Tensor, Tensor]
Look = Callable[[Tensor, Tensor, Tensor], Tensor]


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
        config = model.config
        heads, size = config.num_key_value_heads, head_size(config)
        shape = (config.num_hidden_layers, rows, heads, capacity, size)
        keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
        return Cache(keys, torch.zeros_like(keys))

    def __getitem__(self, rows: slice | Tensor) -> Cache:
        """Of these rows: a slice shares their memory."""
        return Cache(self.keys[:, rows], self.values[:, rows])


def hidden_states(
    model: Any,
    ids: Tensor,
    first: Tensor | None = None,
    cache: Cache | None = None,
    shows: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """Hidden states [rows, m, width] after each of the tokens [rows, m], and what it shows.

    Args:
        first: [rows] how many tokens stand in `cache` before each row's; None: no row has any.
        cache: where keys and values are read and written, if they will be needed again.
        shows: layers, counted from 1, whose outputs are the second result,
            [rows, m, layers · width].
    """
    places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
    if first is not None:
        places = places + first[:, None]
    stack = model.model
    x = functional.embedding(ids, stack.embed_tokens.weight)
    angles = rotary_angles(stack, x, places)
    shown = [x[..., :0]]
    for depth, layer in enumerate(stack.layers):
        look = partial(_looked, places=places, begins=first is None, cache=cache, depth=depth)
        x = through_layer(layer, x, angles, look)
        if depth + 1 in shows:
            shown.append(x)
    return rms_norm(stack.norm, x), torch.cat(shown, -1)


def rotary_angles(stack: Any, x: Tensor, places: Tensor) -> Angles:
    """cos and sin for `through_layer`, of tokens at these places [rows, m]; x says of what type."""
    cos, sin = stack.rotary_emb(x, places)
    return cos[:, None], sin[:, None]


def through_layer(layer: Any, x: Tensor, angles: Angles, look: Look) -> Tensor:
    """The residual stream [rows, m, width] behind a layer.

    Args:
        look: attention, from queries, keys and values [rows, heads, m, head size] to what each
            query saw, shaped as the queries.
    """
    q, k, v = _projections(layer.self_attn, rms_norm(layer.input_layernorm, x))
    looked = look(_rotated(q, *angles), _rotated(k, *angles), v)
    x = x + layer.self_attn.o_proj(looked.transpose(1, 2).flatten(2))
    added: Tensor = layer.mlp(rms_norm(layer.post_attention_layernorm, x))
    return x + added


def repeated(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values, once for each of the query heads that share them."""
    repeats = q.shape[1] // k.shape[1]
    return k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)


def head_size(config: Any) -> int:
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def _projections(attention: Any, h: Tensor) -> list[Tensor]:
    """q, k and v as [rows, heads, m, head size]."""
    shape = (*h.shape[:2], -1, attention.head_dim)
    q, k, v = (getattr(attention, f"{part}_proj")(h).view(shape) for part in "qkv")
    if hasattr(attention, "q_norm"):
        q, k = rms_norm(attention.q_norm, q), rms_norm(attention.k_norm, k)
    return [part.transpose(1, 2) for part in (q, k, v)]


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def _write(cache: Tensor, new: Tensor, places: Tensor) -> None:
    """Puts [rows, heads, m, size] at each row's `places` [rows, m] of the cache."""
    rows = torch.arange(len(places), device=places.device)[:, None]
    cache[rows, :, places] = new.transpose(1, 2)


def _looked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    places: Tensor,
    begins: bool,
    cache: Cache | None,
    depth: int,
) -> Tensor:
    """Attention to the tokens of this call or, where texts go on, to the whole cache."""
    if cache is not None:
        _write(cache.keys[depth], k, places)
        _write(cache.values[depth], v, places)
        if not begins:
            return _over_cache(q, cache.keys[depth], cache.values[depth], places)
    return functional.scaled_dot_product_attention(q, *repeated(q, k, v), is_causal=True)


def _over_cache(q: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> Tensor:
    """Attention of one query a row and head; those that share a key stand where a text would."""
    end = int(places.max()) + 1
    heads = keys.shape[1]
    unseen = torch.arange(end, device=q.device) > places
    mask = torch.zeros(unseen.shape, dtype=q.dtype, device=q.device)
    mask = mask.masked_fill(unseen, -torch.inf)[:, None, None]
    grouped = q.view(len(q), heads, -1, q.shape[-1])
    looked = functional.scaled_dot_product_attention(
        grouped,
        keys[:, :, :end],
        values[:, :, :end],
        attn_mask=mask.expand(-1, 1, grouped.shape[2], -1),
    )
    return looked.view(q.shape)
