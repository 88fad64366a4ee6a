"""Gemma 4, whose norms the converter leaves as they are. Global layers have sizes of their own, and
what of their heads is rotated is in a tensor of divisors: a very large one stands for never."""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    OUTSIDE,
    WINDOWS,
    decoder,
    layer_types,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_norms_after import NORMS_ON_BOTH_SIDES
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import ROPE_FACTORS, rope_factors
from edgespec_export.checkpoint.gguf.gguf_values import count, number, required, vocab_size
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["GEMMA4"]

_PER_LAYER = "per_layer_token_embd.weight"
_NEVER = 1e30  # the divisor of a frequency that does not turn
_PERIOD = 6  # of global layers, where a file does not list them


def _gemma4(header: GgufHeader) -> JsonObject:
    layers = count(header, "gemma4.block_count")
    kinds = layer_types(header, "gemma4", layers, _PERIOD)
    size = count(header, "gemma4.attention.key_length")
    windowed = count(header, "gemma4.attention.key_length_swa", size)
    for key, whole in (
        *(("attention.value_length", size), ("rope.dimension_count", size)),
        *(("attention.value_length_swa", windowed), ("rope.dimension_count_swa", windowed)),
    ):
        other = header.metadata.get(f"gemma4.{key}", whole)
        if other != whole:
            raise EdgespecError(
                f"{header.path}: gemma4.{key} is {shortened(other)}, not the head's {whole}"
            )
    kv_heads = _kv_heads(header, layers)
    shared = header.metadata.get("gemma4.attention.shared_kv_layers", 0)
    listed = kinds["layer_types"]
    assert isinstance(listed, list)
    return {
        "model_type": "gemma4_text",
        "architectures": ["Gemma4ForCausalLM"],
        **kinds,
        "num_hidden_layers": layers,
        "hidden_size": count(header, "gemma4.embedding_length"),
        "num_attention_heads": count(header, "gemma4.attention.head_count"),
        "num_key_value_heads": kv_heads[0],
        "head_dim": windowed,
        # A layer that differs says so; the last layers, which share keys, have no heads of them.
        "per_layer_config": {
            str(index): {
                "head_dim": size if kind == "full_attention" else windowed,
                "num_key_value_heads": kv_heads[index],
            }
            for index, kind in enumerate(listed)
        },
        "attention_k_eq_v": _keys_are_values(header, listed),
        "num_kv_shared_layers": shared,
        "hidden_size_per_layer_input": header.metadata.get(
            "gemma4.embedding_length_per_layer_input", 0
        ),
        "vocab_size": vocab_size(header),
        "vocab_size_per_layer_input": _embedded_tokens(header),
        "max_position_embeddings": count(header, "gemma4.context_length"),
        "rms_norm_eps": number(header, "gemma4.attention.layer_norm_rms_epsilon"),
        "sliding_window": count(header, "gemma4.attention.sliding_window"),
        "final_logit_softcapping": number(header, "gemma4.final_logit_softcapping", 0.0) or None,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": number(header, "gemma4.rope.freq_base", 1e6),
                "partial_rotary_factor": _turned(header, size),
            },
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": number(header, "gemma4.rope.freq_base_swa", 1e4),
            },
        },
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
    }


def _kv_heads(header: GgufHeader, layers: int) -> list[int]:
    """Heads of keys of each layer: a list of them, or one number for all."""
    value = required(header, "gemma4.attention.head_count_kv")
    each = value if isinstance(value, list) else [value] * layers
    found = [heads for heads in each if type(heads) is int and heads > 0]
    if len(found) != layers:
        raise EdgespecError(
            f"{header.path}: gemma4.attention.head_count_kv is {shortened(value)} for {layers} "
            "layers"
        )
    return found


def _embedded_tokens(header: GgufHeader) -> int:
    """Tokens with embeddings for each layer; 0 if there are none."""
    return header.tensors[_PER_LAYER].shape[0] if _PER_LAYER in header.tensors else 0


def _keys_are_values(header: GgufHeader, kinds: list[JsonValue]) -> bool:
    """Whether global layers have no matrix of values."""
    first = kinds.index("full_attention") if "full_attention" in kinds else 0
    named = (f"blk.{first}.attn_{part}.weight" in header.tensors for part in "kv")
    return [*named] == [True, False]


def _turned(header: GgufHeader, size: int) -> float:
    """The share of a global head's pairs that turn; all of them without a tensor of divisors."""
    if ROPE_FACTORS not in header.tensors:
        return 1.0
    divisors = rope_factors(header, ROPE_FACTORS)
    turned = divisors.count(1.0)
    if len(divisors) != size // 2 or divisors != [1.0] * turned + [_NEVER] * (size // 2 - turned):
        raise EdgespecError(
            f"{header.path}: {ROPE_FACTORS} has other divisors than 1 and then {_NEVER:g}"
        )
    return turned / (size // 2)


_LAYER = {
    **NORMS_ON_BOTH_SIDES,
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "layer_output_scale": "layer_scalar",
}
GEMMA4 = decoder(
    "gemma4",
    _gemma4,
    "gemma4_text",
    layer=_LAYER,
    outside={
        **OUTSIDE,
        _PER_LAYER: "model.embed_tokens_per_layer.weight",
        "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
        "per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight",
    },
    without_suffix=frozenset({"layer_scalar"}),
    keys=WINDOWS
    | {"attention.key_length_swa", "attention.value_length_swa", "attention.shared_kv_layers"}
    | {"rope.dimension_count_swa", "rope.freq_base_swa"}
    | {"embedding_length_per_layer_input", "final_logit_softcapping"},
)
