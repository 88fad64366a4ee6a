"""The EAGLE draft in torch, for training; the exporter's `families/drafts/eagle.py` is its graph.

It is trained as it is used. The first prediction reads the target's hidden states; further ones
read the draft's own hidden states instead, and attend to the earlier predictions (the
"training-time test" of Li et al. 2025, arXiv 2503.01840, section 3.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from edgespec_distill.models import llama_forward as llama
from edgespec_distill.models.rms_norm import RmsNorm, rms_norm

__all__ = [
    "Eagle",
    "KeysValues",
    "embedded",
    "feature_layers",
    "first_rows",
    "fused",
    "hidden_states",
]

KeysValues = tuple[Tensor, Tensor]  # [rows, heads, m, head size] each


class Eagle(nn.Module):
    """The parameters of an EAGLE draft, by their names in a checkpoint.

    Args:
        body: a transformers Llama with the draft's layers.
        target_layers: the target's layers whose outputs it reads, counted from 1.
        target_width: the width of these outputs.
        has_target_tables: its embedding and head are the target's, and stay so.
    """

    model_type = "eagle"

    def __init__(
        self,
        body: Any,
        target_layers: Sequence[int],
        target_width: int,
        *,
        has_target_tables: bool = False,
    ) -> None:
        super().__init__()
        config = body.config
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.config = config
        self.model, self.lm_head = body.model, body.lm_head
        self.target_layers = tuple(target_layers)
        self.target_width = target_width
        self.reader = _FeatureFusion(len(self.target_layers), target_width, width, epsilon)
        self.join = _Join(width, epsilon)
        self.has_target_tables = has_target_tables
        if has_target_tables:
            for table in (self.model.embed_tokens, self.lm_head):
                table.requires_grad_(requires_grad=False)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.lm_head.weight.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        device: torch.device = self.lm_head.weight.device
        return device

    def own_config(self) -> dict[str, Any]:
        """What its config says besides what its body's says."""
        return {
            "architectures": [type(self).__name__],
            "model_type": self.model_type,
            "layers_of": self.config.model_type,
            "target_layers": self.target_layers,
            "target_hidden_size": self.target_width,
            **({"target_tables": True} if self.has_target_tables else {}),
        }

    def save_pretrained(self, folder: Path) -> None:
        """Writes a checkpoint that the exporter reads."""
        config = {**self.config.to_diff_dict(), **self.own_config()}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file(
            {
                name: weight.detach().cpu().contiguous()
                for name, weight in self.named_parameters()
                if weight.requires_grad
            },
            folder / "model.safetensors",
        )


def feature_layers(count: int) -> tuple[int, ...]:
    """The layers that a draft reads of a target with `count`: an early, the middle and the last."""
    return tuple(sorted({min(2, count), (count + 1) // 2, count}))


class _FeatureFusion(nn.Module):
    """Feature fusion; before training, its output is the last of the layers that it reads, as far
    as a narrower draft has room: see `eagle_start`."""

    def __init__(self, layers: int, target_width: int, width: int, epsilon: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(LlamaRMSNorm(target_width, epsilon) for _ in range(layers))
        shares = [0.0] * (layers - 1) + [1.0]
        self.maps = nn.ModuleList(_scaled_identity(target_width, width, share) for share in shares)


class _Join(nn.Module):
    """Joins a token and a hidden state; before `eagle_start`, its output is their mean."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.token_norm, self.state_norm = (
            LlamaRMSNorm(width, epsilon),
            LlamaRMSNorm(width, epsilon),
        )
        self.token, self.state = (_scaled_identity(width, width, 0.5) for _ in range(2))


def _scaled_identity(columns: int, rows: int, share: float) -> nn.Linear:
    """A linear map that multiplies its input by `share`."""
    linear = nn.Linear(columns, rows, bias=False)
    with torch.no_grad():
        linear.weight.copy_(share * torch.eye(rows, columns))
    return linear


def hidden_states(draft: Eagle, ids: Tensor, features: Tensor) -> Iterator[Tensor]:
    """Hidden states [rows, m, width] of the first, second, … prediction after each token.

    Args:
        ids: [rows, m] the draft's token ids.
        features: [rows, m, F] the target's, at these positions.
    """
    join = draft.join
    token, state = _token_part(draft, ids), _shifted(fused(draft, features), 1)
    positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
    angles = llama.rotary_angles(draft.model, token, positions)
    earlier: list[list[KeysValues]] = [[] for _ in draft.model.layers]
    while True:
        x = token + join.state(rms_norm(join.state_norm, state))
        for layer, parts in zip(draft.model.layers, earlier, strict=True):
            x = llama.through_layer(layer, x, angles, partial(_attention, earlier=parts))
        yield rms_norm(draft.model.norm, x)
        state = _shifted(x, 1)


def first_rows(draft: Eagle, ids: Tensor, features: Tensor) -> Tensor:
    """What enters the layers at each token, from the target's features before it; arguments as
    `hidden_states`."""
    state = rms_norm(draft.join.state_norm, _shifted(fused(draft, features), 1))
    return _token_part(draft, ids) + cast("Tensor", draft.join.state(state))


def _token_part(draft: Eagle, ids: Tensor) -> Tensor:
    """What tokens add to what enters the layers: [rows, m, width]."""
    part: Tensor = draft.join.token(rms_norm(draft.join.token_norm, embedded(draft, ids)))
    return part


def embedded(draft: Eagle, ids: Tensor) -> Tensor:
    """The embeddings [rows, m, width] of the draft's token ids [rows, m]."""
    return functional.embedding(ids, draft.model.embed_tokens.weight)


def fused(draft: Eagle, features: Tensor) -> Tensor:
    """Feature fusion: features [rows, m, F] to states [rows, m, width]."""
    parts = torch.split(features, draft.target_width, -1)
    norms = cast("Iterable[RmsNorm]", draft.reader.norms)
    layers = zip(norms, draft.reader.maps, parts, strict=True)
    return torch.stack([mapped(rms_norm(norm, part)) for norm, mapped, part in layers]).sum(0)


def _attention(q: Tensor, k: Tensor, v: Tensor, *, earlier: list[KeysValues]) -> Tensor:
    """Attention of the next predictions; adds their keys and values to `earlier`."""
    earlier.append(llama.repeated(q, k, v))
    return _attention_of_last(q, earlier)


def _attention_of_last(q: Tensor, parts: Sequence[KeysValues]) -> Tensor:
    """Attention of the n-th predictions (n = len(parts) - 1, from 0).

    Such a prediction attends to the target's positions up to n before its own. At each position
    after those it attends to the earlier prediction that led to it.
    """
    (keys, values), *own_parts = parts
    if not own_parts:
        return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)
    scale, count = q.shape[-1] ** -0.5, len(own_parts)
    positions = torch.arange(q.shape[2], device=q.device)
    hidden = positions > (positions - count)[:, None]
    scores = (q @ keys.transpose(-1, -2) * scale).masked_fill(hidden, -torch.inf)
    path = [
        tuple(_shifted(part, count - n) for part in prediction)
        for n, prediction in enumerate(own_parts, start=1)
    ]
    path_scores = [(q * k).sum(-1, keepdim=True) * scale for k, _ in path]
    weights = torch.cat([scores, *path_scores], -1).softmax(-1)
    out = weights[..., : len(positions)] @ values
    for n, (_, v) in enumerate(path):
        out = out + weights[..., len(positions) + n, None] * v
    return out


def _shifted(part: Tensor, positions: int) -> Tensor:
    """[..., m, size] moved to later positions; the first `positions` become zero."""
    return functional.pad(part, (0, 0, positions, 0))[..., : part.shape[-2], :]
