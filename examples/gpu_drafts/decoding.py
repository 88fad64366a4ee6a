"""Texts that the target continues, thousands at once, over one cache.

As in edgespec_distill's `causal.py`, but made for a GPU: a step asks it for no number, since each
answer would have to wait for all that was begun before; the mask is made once for all layers; and
attention reads as many positions as a multiple of 64 has, which its fast kernels need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.data.examples import padded
from edgespec_distill.models import llama_forward as llama
from edgespec_distill.models.rms_norm import rms_norm

PREFILL_POSITIONS = 131072  # padded positions of prompts that are read at once
UNIT = 64  # positions


class Decoding:
    """Texts, one per row, each of its own length.

    Attributes:
        logits: [rows, vocabulary] of the next token.

    Args:
        model: a Llama or Qwen2 of transformers.
        prompts: token ids.
        new: tokens that will be added to each, at most.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], new: int) -> None:
        ids, real = (part.to(model.device) for part in padded(prompts))
        self._model, self._lengths, self._longest = model, real.sum(1), ids.shape[1]
        self._capacity = _rounded_up(self._longest + new)
        self._cache = llama.Cache.empty(model, len(ids), self._capacity)
        self._mask = ids.new_full((len(ids), self._capacity), -torch.inf, dtype=model.dtype)
        self._mask[:, : self._longest].masked_fill_(real, 0)
        states = []
        at_once = max(1, PREFILL_POSITIONS // self._longest)
        for part in torch.split(torch.arange(len(ids)), at_once):
            rows = slice(int(part[0]), int(part[-1]) + 1)
            hidden, _ = llama.hidden_states(model, ids[rows], cache=self._cache[rows])
            states.append(hidden[part.to(ids.device) - part[0], self._lengths[rows] - 1])
        self.logits: Tensor = model.lm_head(torch.cat(states))

    def add(self, tokens: Tensor) -> None:
        """Appends a token to each text: [rows]."""
        model, stack = self._model, self._model.model
        rows = torch.arange(len(tokens), device=tokens.device)
        self._mask[rows, self._lengths] = 0
        self._longest += 1
        end = min(_rounded_up(self._longest), self._capacity)
        x = functional.embedding(tokens[:, None], stack.embed_tokens.weight)
        angles = llama.rotary_angles(stack, x, self._lengths[:, None])
        for depth, layer in enumerate(stack.layers):
            cache = llama.Cache(self._cache.keys[depth], self._cache.values[depth])
            attention = partial(self._attention, cache=cache, rows=rows, end=end)
            x = llama.through_layer(layer, x, angles, attention)
        self.logits = model.lm_head(rms_norm(stack.norm, x[:, 0]))
        self._lengths = self._lengths + 1

    def keep_rows(self, rows: Tensor) -> None:
        """Drops all texts but these rows, which are in order. The others move up in the cache,
        a layer at a time, as a copy of the whole would take its memory twice."""
        count = len(rows)
        for part in (self._cache.keys, self._cache.values):
            for layer in part:
                layer[:count] = layer[rows]
        self._cache = self._cache[:count]
        self._lengths, self._mask = self._lengths[rows], self._mask[rows]
        self._longest = int(self._lengths.max())

    def _attention(
        self, q: Tensor, k: Tensor, v: Tensor, *, cache: llama.Cache, rows: Tensor, end: int
    ) -> Tensor:
        """Attention of one query per row and head to the first `end` positions. The query heads
        that share a key head are passed as queries of one text, so no key is repeated."""
        cache.keys[rows, :, self._lengths] = k[:, :, 0]
        cache.values[rows, :, self._lengths] = v[:, :, 0]
        grouped = q.reshape(len(q), k.shape[1], -1, q.shape[-1])
        mask = self._mask[:, None, None, :end].expand(-1, k.shape[1], grouped.shape[2], -1)
        out = functional.scaled_dot_product_attention(
            grouped, cache.keys[:, :, :end], cache.values[:, :, :end], attn_mask=mask
        )
        return out.reshape(q.shape)


def _rounded_up(positions: int) -> int:
    return -(-positions // UNIT) * UNIT
