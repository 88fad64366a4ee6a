"""A GGUF file's metadata as the Hugging Face config of the same model."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import rope_scaling

__all__ = ["gguf_config"]

_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

_COUNTS = {
    "attention.head_count": "num_attention_heads",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
}

# Read below, or no news: any other key would change the model behind the exporter's back.
_KNOWN = {
    *_COUNTS,
    "attention.causal",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "expert_count",
    "expert_used_count",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",
    "vocab_size",
}


def gguf_config(header: GgufHeader) -> dict[str, Any]:
    """The config a family reads: `model_type` llama, qwen2 or qwen3 and its sizes.

    Mistral's GGUF files say llama, and are read as such: without its sliding window the model is
    the same one.

    Raises:
        EdgespecError: another architecture, a key that is missing or not understood, by name.
    """
    arch = header.metadata.get("general.architecture")
    if arch not in _CLASSES:
        raise EdgespecError(
            f"{header.path}: architecture {arch!r} is not one of {', '.join(_CLASSES)}"
        )
    _refuse_unknown(header, arch)
    config: dict[str, Any] = {"model_type": arch, "architectures": [_CLASSES[arch]]}
    config |= {name: _count(header, f"{arch}.{key}") for key, name in _COUNTS.items()}
    config |= _heads(header, arch, config)
    theta = _decimal(header.metadata.get(f"{arch}.rope.freq_base", 10000.0))
    epsilon = _required(header, f"{arch}.attention.layer_norm_rms_epsilon")
    return config | {
        "attention_bias": arch != "qwen2" and _has_bias(header, ("q", "k", "v", "output")),
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "hidden_act": "silu",
        "rms_norm_eps": _decimal(epsilon),
        "rope_scaling": rope_scaling(header, arch, theta, config["head_dim"]),
        "rope_theta": theta,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": _vocab_size(header),
    }


def _refuse_unknown(header: GgufHeader, arch: str) -> None:
    prefix = f"{arch}."
    keys = {key.removeprefix(prefix) for key in header.metadata if key.startswith(prefix)}
    unknown = sorted(keys - _KNOWN)
    if unknown:
        raise EdgespecError(f"{header.path}: {prefix}{unknown[0]} is not understood")
    if header.metadata.get(f"{prefix}expert_count"):
        raise EdgespecError(f"{header.path}: mixtures of experts are not supported")
    if header.metadata.get(f"{prefix}attention.causal") is False:
        raise EdgespecError(f"{header.path}: attention is not causal: this is no text generator")


def _heads(header: GgufHeader, arch: str, config: dict[str, Any]) -> dict[str, int]:
    heads = config["num_attention_heads"]
    size = header.metadata.get(f"{arch}.attention.key_length", config["hidden_size"] // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        other = header.metadata.get(f"{arch}.{key}", size)
        if other != size:
            raise EdgespecError(f"{header.path}: {arch}.{key} is {other}, not the head's {size}")
    kv_key = f"{arch}.attention.head_count_kv"
    kv_heads = _count(header, kv_key) if kv_key in header.metadata else heads
    return {"head_dim": size, "num_key_value_heads": kv_heads}


def _has_bias(header: GgufHeader, parts: tuple[str, ...]) -> bool:
    biased = [part for part in parts if f"blk.0.attn_{part}.bias" in header.tensors]
    if biased and len(biased) < len(parts):
        raise EdgespecError(
            f"{header.path}: only {', '.join(biased)} of the attention has a bias: not supported"
        )
    return bool(biased)


def _vocab_size(header: GgufHeader) -> int:
    if "token_embd.weight" not in header.tensors:
        raise EdgespecError(f"{header.path}: has no token_embd.weight: is it a vocabulary only?")
    return header.tensors["token_embd.weight"].shape[0]


def _count(header: GgufHeader, key: str) -> int:
    value = _required(header, key)
    if not isinstance(value, int) or value < 1:
        shown = "a list, one for each layer" if isinstance(value, list) else repr(value)
        raise EdgespecError(f"{header.path}: {key} is {shown}; only one number ≥ 1 is supported")
    return value


def _required(header: GgufHeader, key: str) -> Any:
    if key not in header.metadata:
        raise EdgespecError(f"{header.path}: lacks {key}: convert the model again")
    return header.metadata[key]


def _decimal(value: float) -> float:
    """The shortest decimal of the same float32: 1e-05, where the file has 9.99999975e-06."""
    return float(str(np.float32(value)))
