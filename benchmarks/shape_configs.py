"""Configurations and tensors of models that are made with random weights; see shapes.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Tensors = Iterator[tuple[str, tuple[int, ...]]]

SHAPES: dict[str, dict[str, Any]] = {
    "t5-xxl": {"d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64},
    "t5-small": {"d_model": 512, "d_ff": 1024, "num_layers": 8, "num_heads": 6},
    "madlad-3b": {
        "d_model": 1024,
        "d_ff": 8192,
        "num_layers": 32,
        "num_heads": 16,
        "d_kv": 128,
        "vocab_size": 256000,
    },
    "qwen3-4b": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
    },
    "qwen3-1.7b": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
    },
    "qwen3-0.6b": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
    },
    # No published model; an eighteenth of qwen3-1.7b.
    "qwen3-draft": {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
    },
    "gemma3-4b": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "sliding_window": 1024,
    },
    "gemma3-1b": {
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "num_hidden_layers": 26,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "sliding_window": 512,
    },
    "gemma4-e2b": {
        "hidden_size": 1536,
        "intermediate_size": 6144,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "num_hidden_layers": 35,
        "num_kv_shared_layers": 20,
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262144,
        "use_double_wide_mlp": True,
        "final_logit_softcapping": 30.0,
    },
    # Layers and widths as Google's assistants for E2B have them.
    "gemma4-assistant": {
        "hidden_size": 256,
        "intermediate_size": 2048,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 4,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
    },
    "qwen3.5-2b": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
    },
    "qwen3.5-0.8b": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
    },
    "gemma3-270m": {
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "sliding_window": 512,
    },
}
T5_WIDTHS = ("d_model", "d_ff", "num_heads")
DECODER_WIDTHS = ("hidden_size", "intermediate_size", "num_attention_heads")
KEY_VALUE_HEADS = 8


def config(shape: str, divisor: int) -> dict[str, Any]:
    """The `config.json` of a shape, with all widths divided by `divisor`."""
    sizes = dict(SHAPES[shape])
    widths, make = FAMILIES[shape.split("-")[0]]
    for width in widths:
        sizes[width] = max(1, sizes[width] // divisor)
    return make(sizes)


def _t5_config(sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_kv": 64,
        "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "is_encoder_decoder": True,
        **sizes,
    }


def _qwen3_config(sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        **sizes,
        "num_key_value_heads": min(KEY_VALUE_HEADS, sizes["num_attention_heads"]),
        "head_dim": 128,
        "vocab_size": 151936,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "max_position_embeddings": 40960,
        "eos_token_id": 2,
    }


def _gemma3_config(sizes: dict[str, Any]) -> dict[str, Any]:
    heads = sizes["num_attention_heads"]
    return {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        **sizes,
        "num_key_value_heads": min(sizes["num_key_value_heads"], heads),
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "vocab_size": 262144,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32768,
        "eos_token_id": 2,
    }


def _gemma4_config(sizes: dict[str, Any]) -> dict[str, Any]:
    layers = sizes["num_hidden_layers"]
    text = {
        "model_type": "gemma4_text",
        **sizes,
        "head_dim": 256,
        "global_head_dim": 512,
        "vocab_size": 262144,
        "sliding_window": 512,
        "layer_types": _every(5 if layers > 4 else 4, "sliding_attention", layers),
        "max_position_embeddings": 131072,
        "eos_token_id": 1,
        "bos_token_id": 2,
        "pad_token_id": 0,
    }
    if sizes["hidden_size_per_layer_input"]:
        return {"architectures": ["Gemma4ForCausalLM"], **text}
    return {
        "model_type": "gemma4_assistant",
        "architectures": ["Gemma4AssistantForCausalLM"],
        "text_config": text,
        "backbone_hidden_size": SHAPES["gemma4-e2b"]["hidden_size"],
        "use_ordered_embeddings": True,
        "eos_token_id": 1,
    }


def _qwen35_config(sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "qwen3_5_text",
        "architectures": ["Qwen3_5ForCausalLM"],
        **sizes,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "layer_types": _every(4, "linear_attention", sizes["num_hidden_layers"]),
        "vocab_size": 248320,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
        },
        "max_position_embeddings": 262144,
        "eos_token_id": 2,
    }


def _every(period: int, kind: str, layers: int) -> list[str]:
    """Of each `period` layers the last one sees all positions."""
    return ["full_attention" if layer % period == period - 1 else kind for layer in range(layers)]


# By the first part of a shape's name: what is divided, and what makes its config.
FAMILIES: dict[str, tuple[Sequence[str], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "t5": (T5_WIDTHS, _t5_config),
    "madlad": (T5_WIDTHS, _t5_config),
    "qwen3": (DECODER_WIDTHS, _qwen3_config),
    "gemma3": (DECODER_WIDTHS, _gemma3_config),
    "gemma4": (DECODER_WIDTHS, _gemma4_config),
    "qwen3.5": (DECODER_WIDTHS, _qwen35_config),
}


def tensors(sizes: dict[str, Any]) -> Tensors:
    """Name and shape of every tensor of a configuration."""
    if sizes["model_type"] == "t5":
        return t5_tensors(sizes)
    if sizes["model_type"] in ("qwen3", "gemma3_text"):
        return decoder_tensors(sizes)
    return transformers_tensors(sizes)


def transformers_tensors(sizes: dict[str, Any]) -> Tensors:
    """Those of transformers' own class, which is made without memory for its weights."""
    import torch
    import transformers

    configuration = transformers.AutoConfig.for_model(**sizes)
    with torch.device("meta"):
        model = getattr(transformers, sizes["architectures"][0])(configuration)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":  # the embedding
            yield name, tuple(tensor.shape)


def t5_tensors(sizes: dict[str, Any]) -> Tensors:
    width, ff_width, vocabulary = sizes["d_model"], sizes["d_ff"], sizes["vocab_size"]
    heads = sizes["num_heads"] * sizes["d_kv"]
    yield "shared.weight", (vocabulary, width)
    yield "lm_head.weight", (vocabulary, width)
    for stack in ("encoder", "decoder"):
        attentions = ("SelfAttention", "EncDecAttention")[: 1 if stack == "encoder" else 2]
        for layer in range(sizes["num_layers"]):
            block = f"{stack}.block.{layer}.layer"
            for index, attention in enumerate(attentions):
                yield f"{block}.{index}.layer_norm.weight", (width,)
                for part in "qkv":
                    yield f"{block}.{index}.{attention}.{part}.weight", (heads, width)
                yield f"{block}.{index}.{attention}.o.weight", (width, heads)
            if layer == 0:
                table = f"{block}.0.SelfAttention.relative_attention_bias.weight"
                yield table, (sizes["relative_attention_num_buckets"], sizes["num_heads"])
            dense = f"{block}.{len(attentions)}.DenseReluDense"
            yield f"{block}.{len(attentions)}.layer_norm.weight", (width,)
            yield f"{dense}.wi_0.weight", (ff_width, width)
            yield f"{dense}.wi_1.weight", (ff_width, width)
            yield f"{dense}.wo.weight", (width, ff_width)
        yield f"{stack}.final_layer_norm.weight", (width,)


def decoder_tensors(sizes: dict[str, Any]) -> Tensors:
    """Of a Qwen3 or a Gemma 3, which has two norms more in each layer."""
    width, ff_width, head = sizes["hidden_size"], sizes["intermediate_size"], sizes["head_dim"]
    queries = sizes["num_attention_heads"] * head
    keys = sizes["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (sizes["vocab_size"], width)
    for layer in range(sizes["num_hidden_layers"]):
        block = f"model.layers.{layer}"
        yield f"{block}.input_layernorm.weight", (width,)
        yield f"{block}.self_attn.q_proj.weight", (queries, width)
        yield f"{block}.self_attn.k_proj.weight", (keys, width)
        yield f"{block}.self_attn.v_proj.weight", (keys, width)
        yield f"{block}.self_attn.o_proj.weight", (width, queries)
        yield f"{block}.self_attn.q_norm.weight", (head,)
        yield f"{block}.self_attn.k_norm.weight", (head,)
        yield f"{block}.post_attention_layernorm.weight", (width,)
        if sizes["model_type"] == "gemma3_text":
            yield f"{block}.pre_feedforward_layernorm.weight", (width,)
            yield f"{block}.post_feedforward_layernorm.weight", (width,)
        yield f"{block}.mlp.gate_proj.weight", (ff_width, width)
        yield f"{block}.mlp.up_proj.weight", (ff_width, width)
        yield f"{block}.mlp.down_proj.weight", (width, ff_width)
    yield "model.norm.weight", (width,)
