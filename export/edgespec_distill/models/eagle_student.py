"""A draft that reads its target's hidden states, in training: `families/eagle.py` in torch.

It is trained as it will be used: a first guess on the target's states, further ones on its own
hidden states in their place, which attend to what was guessed before (the "training-time test" of
Li et al. 2025, arXiv 2503.01840, section 3.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from edgespec_distill.models import llama_forward as llama
from edgespec_distill.models.t5_forward import rms_norm

__all__ = ["Eagle", "embedded", "hidden_states", "layers_to_read", "read"]

Part = tuple[Tensor, Tensor]  # keys and values: [rows, heads, m, head size]


class Eagle(nn.Module):
    """The parameters, under the names that checkpoints have for them.

    Args:
        body: a transformers Llama with the draft's layers.
        reads: the target's layers whose output it reads, counted from 1.
        target_width: of these outputs.
    """

    def __init__(self, body: Any, reads: Sequence[int], target_width: int) -> None:
        super().__init__()
        config = body.config
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.config = config
        self.model, self.lm_head = body.model, body.lm_head
        self.reads = tuple(reads)
        self.target_width = target_width
        self.reader = _Reader(len(self.reads), target_width, width, epsilon)
        self.join = _Join(width, epsilon)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.lm_head.weight.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        device: torch.device = self.lm_head.weight.device
        return device

    def save_pretrained(self, folder: Path) -> None:
        """Writes a checkpoint that `families/eagle.py` takes."""
        config = {
            **self.config.to_diff_dict(),
            "architectures": ["Eagle"],
            "model_type": "eagle",
            "layers_of": self.config.model_type,
            "target_layers": self.reads,
            "target_hidden_size": self.target_width,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file(
            {name: weight.detach().cpu().contiguous() for name, weight in self.named_parameters()},
            folder / "model.safetensors",
        )


def layers_to_read(count: int) -> tuple[int, ...]:
    """Of a target with so many layers: an early one, the middle one and the last."""
    return tuple(sorted({min(2, count), (count + 1) // 2, count}))


class _Reader(nn.Module):
    """Begins by passing on the last of the layers that it reads."""

    def __init__(self, layers: int, target_width: int, width: int, epsilon: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(LlamaRMSNorm(target_width, epsilon) for _ in range(layers))
        shares = [0.0] * (layers - 1) + [1.0]
        self.maps = nn.ModuleList(_passing(target_width, width, share) for share in shares)


class _Join(nn.Module):
    """Begins with the mean of a token and a state, until `eagle_start` knows better."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.token_norm, self.state_norm = (
            LlamaRMSNorm(width, epsilon),
            LlamaRMSNorm(width, epsilon),
        )
        self.token, self.state = (_passing(width, width, 0.5) for _ in range(2))


def _passing(columns: int, rows: int, share: float) -> nn.Linear:
    """A map that passes on a share of its input."""
    linear = nn.Linear(columns, rows, bias=False)
    with torch.no_grad():
        linear.weight.copy_(share * torch.eye(rows, columns))
    return linear


def hidden_states(draft: Eagle, ids: Tensor, features: Tensor) -> Iterator[Tensor]:
    """Hidden states [rows, m, width] that the first, second, … guess after each token is made of.

    Args:
        ids: [rows, m] the draft's tokens.
        features: [rows, m, F] what the target shows of these positions.
    """
    join = draft.join
    token = join.token(rms_norm(join.token_norm, embedded(draft, ids)))
    state = _later(read(draft, features), 1)
    places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
    angles = llama.rotary_angles(draft.model, token, places)
    earlier: list[list[Part]] = [[] for _ in draft.model.layers]
    while True:
        x = token + join.state(rms_norm(join.state_norm, state))
        for layer, parts in zip(draft.model.layers, earlier, strict=True):
            x = llama.through_layer(layer, x, angles, partial(_looked, earlier=parts))
        yield rms_norm(draft.model.norm, x)
        state = _later(x, 1)


def embedded(draft: Eagle, ids: Tensor) -> Tensor:
    """[rows, m, width] of the draft's tokens [rows, m]."""
    return functional.embedding(ids, draft.model.embed_tokens.weight)


def read(draft: Eagle, features: Tensor) -> Tensor:
    """The states [rows, m, width] that features [rows, m, F] are made into."""
    parts = torch.split(features, draft.target_width, -1)
    layers = zip(draft.reader.norms, draft.reader.maps, parts, strict=True)
    return torch.stack([mapped(rms_norm(norm, part)) for norm, mapped, part in layers]).sum(0)


def _looked(q: Tensor, k: Tensor, v: Tensor, *, earlier: list[Part]) -> Tensor:
    """Attention of the next guesses; their keys and values join those of the ones before."""
    earlier.append(llama.repeated(q, k, v))
    return _attended(q, earlier)


def _attended(q: Tensor, parts: Sequence[Part]) -> Tensor:
    """Attention of the n-th guesses.

    Such a guess sees the target's positions up to n places back, and in each place since then what
    the guesses on its own way were made of.
    """
    (keys, values), *since = parts
    if not since:
        return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)
    scale, count = q.shape[-1] ** -0.5, len(since)
    places = torch.arange(q.shape[2], device=q.device)
    unseen = places > (places - count)[:, None]
    scores = (q @ keys.transpose(-1, -2) * scale).masked_fill(unseen, -torch.inf)
    way = [tuple(_later(part, count - n) for part in one) for n, one in enumerate(since, start=1)]
    own = [(q * k).sum(-1, keepdim=True) * scale for k, _ in way]
    weights = torch.cat([scores, *own], -1).softmax(-1)
    looked = weights[..., : len(places)] @ values
    for n, (_, v) in enumerate(way):
        looked = looked + weights[..., len(places) + n, None] * v
    return looked


def _later(part: Tensor, places: int) -> Tensor:
    """Each position [..., m, size] gets what stood some places before it; the first ones zeros."""
    return functional.pad(part, (0, 0, places, 0))[..., : part.shape[-2], :]
