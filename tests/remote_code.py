"""Checkpoints of models whose code comes with them, made of a model of transformers that computes
the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BAICHUAN_2", "INTERNLM_2", "MINICPM", "Twin"]

Tensors = dict[str, Any]


@dataclass(frozen=True)
class Twin:
    """What transformers has in the place of a model with code of its own.

    Attributes:
        model_type: of transformers.
        keys: of its config besides the sizes.
        stored: the checkpoint's tensors, from the twin's model, which it may change.
    """

    model_type: str
    keys: Mapping[str, Any]
    stored: Callable[[Any], Tensors]


def _renamed(tensors: Tensors, names: Mapping[str, str]) -> Tensors:
    made = {}
    for name, tensor in tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        made[name] = tensor
    return made


def _internlm2(model: Any) -> Tensors:
    """Queries of a key, the key and the value follow each other, for each key."""
    import torch

    config, tensors = model.config, dict(model.state_dict())
    size, kv_count = config.head_dim, config.num_key_value_heads
    for layer in range(config.num_hidden_layers):
        at = f"model.layers.{layer}.self_attn"
        q, k, v = (
            tensors.pop(f"{at}.{part}_proj.weight").view(kv_count, -1, size, config.hidden_size)
            for part in "qkv"
        )
        fused = torch.cat([q, k, v], dim=1).reshape(-1, config.hidden_size)
        tensors[f"model.layers.{layer}.attention.wqkv.weight"] = fused.contiguous()
    names = {
        **{"self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1"},
        **{"mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"},
        **{"embed_tokens": "tok_embeddings", "input_layernorm": "attention_norm"},
        **{"post_attention_layernorm": "ffn_norm", "lm_head": "output"},
    }
    return _renamed(tensors, names)


def _baichuan2(model: Any) -> Tensors:
    """Stored heads have rows of any length; the model computes with rows of length 1."""
    import torch

    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for layer in range(model.config.num_hidden_layers):
        at = f"model.layers.{layer}.self_attn"
        parts = [tensors.pop(f"{at}.{part}_proj.weight") for part in "qkv"]
        tensors[f"{at}.W_pack.weight"] = torch.cat(parts)
    head = model.lm_head.weight
    with torch.no_grad():
        head.copy_(torch.nn.functional.normalize(head))
    return tensors


INTERNLM_2 = Twin("llama", {}, _internlm2)
BAICHUAN_2 = Twin("llama", {"num_key_value_heads": 4}, _baichuan2)
MINICPM = Twin(
    "granite",
    {
        **{"embedding_multiplier": 12.0, "residual_multiplier": 1.4 / 3**0.5},
        **{"attention_multiplier": 0.25, "logits_scaling": 4.0, "tie_word_embeddings": True},
    },
    lambda model: {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"},
)
