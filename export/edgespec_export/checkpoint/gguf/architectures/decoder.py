"""What the architectures of decoders like Llama have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture, MakesConfig
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import rope_scaling
from edgespec_export.checkpoint.gguf.gguf_values import count, has_bias, number, vocab_size
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["LAYER", "OUTSIDE", "WINDOWS", "decoder", "decoder_config", "layer_types", "stated"]

OUTSIDE = {
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
    "token_embd.weight": "model.embed_tokens.weight",
}
LAYER = {
    "attn_k": "self_attn.k_proj",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    "attn_q": "self_attn.q_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_v": "self_attn.v_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.up_proj",
}
WINDOWS = frozenset({"attention.sliding_window", "attention.sliding_window_pattern"})

_COUNTS = {
    "attention.head_count": "num_attention_heads",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
}
_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
# A head has one size, whatever it is for.
_SIZES = ("attention.value_length", "attention.key_length_swa", "attention.value_length_swa")
_ROTATED = ("rope.dimension_count", "rope.dimension_count_swa")


def decoder(
    name: str,
    config: MakesConfig,
    *model_types: str,
    layer: Mapping[str, str] = LAYER,
    outside: Mapping[str, str] = OUTSIDE,
    **differences: Any,
) -> Architecture:
    """An architecture whose tensors have the names of a Llama, but for those in `layer`."""
    return Architecture(
        name=name,
        model_types=model_types,
        config=config,
        stacks={"blk": "model.layers.{}"},
        parts={"blk": layer},
        outside=outside,
        **differences,
    )


def decoder_config(
    header: GgufHeader,
    arch: str,
    hugging_face: str,
    *,
    partial: bool = False,
    biased: tuple[str, ...] = _ATTENTION,
    epsilon: str = "layer_norm_rms_epsilon",
) -> JsonObject:
    """The keys of a Llama's config, of which an architecture's own replace some.

    Args:
        header: the file.
        arch: the prefix of its keys.
        hugging_face: name of the class in transformers.
        partial: a part of each head may be rotated.
        biased: projections that have the biases of the config's `attention_bias`.
        epsilon: the key of `rms_norm_eps`.

    Raises:
        EdgespecError: a key is missing or has a value that is not supported.
    """
    counts = {name: count(header, f"{arch}.{key}") for key, name in _COUNTS.items()}
    heads, width = counts["num_attention_heads"], counts["hidden_size"]
    key = f"{arch}.attention.key_length"
    size = count(header, key) if key in header.metadata else width // heads
    if not size:
        raise EdgespecError(f"{header.path}: {heads} heads are more than the {width} numbers")
    for name in _SIZES if partial else (*_SIZES, *_ROTATED):
        other = header.metadata.get(f"{arch}.{name}", size)
        if other != size:
            raise EdgespecError(
                f"{header.path}: {arch}.{name} is {shortened(other)}, not the head's {size}"
            )
    theta = number(header, f"{arch}.rope.freq_base", 10000.0)
    return {
        "model_type": arch,
        "architectures": [hugging_face],
        **counts,
        "head_dim": size,
        "num_key_value_heads": _kv_heads(header, arch, heads),
        "attention_bias": has_bias(header, biased),
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "hidden_act": "silu",
        "rms_norm_eps": number(header, f"{arch}.attention.{epsilon}"),
        "rope_scaling": rope_scaling(header, arch, theta, size),
        "rope_theta": theta,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": vocab_size(header),
    }


def _kv_heads(header: GgufHeader, arch: str, heads: int) -> int:
    """Heads of keys and values. Some files list them layer by layer."""
    key = f"{arch}.attention.head_count_kv"
    if key not in header.metadata:
        return heads
    value = header.metadata[key]
    if isinstance(value, list) and len(set(map(str, value))) == 1:
        value = value[0]
    if isinstance(value, int) and value > 0:
        return value
    return count(header, key)


def stated(config: JsonObject, name: str) -> int:
    """A number of `decoder_config`."""
    value = config[name]
    assert isinstance(value, int)
    return value


def layer_types(header: GgufHeader, arch: str, layers: int, period: int) -> JsonObject:
    """Which layers have windows: every one but each n-th, or as a list says.

    Raises:
        EdgespecError: the pattern is neither a list nor a number.
    """
    value = header.metadata.get(f"{arch}.attention.sliding_window_pattern", period)
    kinds = ("full_attention", "sliding_attention")
    if isinstance(value, list):
        return {"layer_types": [kinds[bool(windowed)] for windowed in value]}
    if type(value) is not int or value < 1:
        raise EdgespecError(
            f"{header.path}: {arch}.attention.sliding_window_pattern is {shortened(value)}"
        )
    return {"layer_types": [kinds[layer % value != 0] for layer in range(1, layers + 1)]}
