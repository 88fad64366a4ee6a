"""LFM2: layers without heads of keys and values are convolutions."""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.decoder import OUTSIDE, decoder
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import (
    count,
    has_bias,
    number,
    required,
    vocab_size,
)
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["LFM2", "LFM2_LAYER", "LFM2_OUTSIDE", "lfm2_config"]

LFM2_LAYER = {
    "attn_norm": "operator_norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "ffn_norm": "ffn_norm",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
}


def lfm2_config(header: GgufHeader, arch: str) -> JsonObject:
    """The config of an LFM2, whose architecture may have another name."""
    key = f"{arch}.attention.head_count_kv"
    kv_heads = required(header, key)
    layers = count(header, f"{arch}.block_count")
    heads = [n for n in kv_heads if type(n) is int] if isinstance(kv_heads, list) else []
    if len(heads) != layers or len(set(heads) - {0}) != 1:
        raise EdgespecError(
            f"{header.path}: {key} is {shortened(kv_heads)}, not a list of one number for "
            f"the layers with attention and 0 for the others of {layers}"
        )
    theta = number(header, f"{arch}.rope.freq_base")
    return {
        "model_type": "lfm2",
        "architectures": ["Lfm2ForCausalLM"],
        "max_position_embeddings": count(header, f"{arch}.context_length"),
        "hidden_size": count(header, f"{arch}.embedding_length"),
        "intermediate_size": count(header, f"{arch}.feed_forward_length"),
        "block_auto_adjust_ff_dim": False,  # the length is the adjusted one
        "num_hidden_layers": layers,
        "num_attention_heads": count(header, f"{arch}.attention.head_count"),
        "num_key_value_heads": max(heads),
        "layer_types": ["full_attention" if n else "conv" for n in heads],
        "conv_L_cache": count(header, f"{arch}.shortconv.l_cache"),
        "conv_bias": has_bias(header, ("shortconv.in_proj",)),
        "norm_eps": number(header, f"{arch}.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "vocab_size": vocab_size(header),
    }


# Newer files name the last norm after the embedding.
LFM2_OUTSIDE = {
    **OUTSIDE,
    "output_norm.weight": "model.embedding_norm.weight",
    "token_embd_norm.weight": "model.embedding_norm.weight",
}
LFM2 = decoder(
    "lfm2",
    lambda header: lfm2_config(header, "lfm2"),
    "lfm2",
    layer=LFM2_LAYER,
    outside=LFM2_OUTSIDE,
    of_config=frozenset(),
    squeezed=(".conv.conv.weight",),
    keys=frozenset({"shortconv.l_cache"}),
)
