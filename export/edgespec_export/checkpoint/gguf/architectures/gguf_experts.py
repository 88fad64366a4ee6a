"""Mixtures of experts: Qwen3-MoE, LFM2-MoE, gpt-oss. A file has each matrix of all experts as one
tensor, [experts, out, in]."""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.architecture import EXPERT
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    WINDOWS,
    decoder,
    decoder_config,
    layer_types,
    stated,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_lfm2 import (
    LFM2_LAYER,
    LFM2_OUTSIDE,
    lfm2_config,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, number
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["GPT_OSS", "LFM2MOE", "QWEN3MOE"]

# Values of "expert_gating_func"; the third is a softmax over the chosen ones.
SOFTMAX, SIGMOID, SOFTMAX_WEIGHT = 1, 2, 3
_KEYS = frozenset(
    {
        "expert_count",
        "expert_feed_forward_length",
        "expert_gating_func",
        "expert_weights_norm",
        "expert_weights_scale",
    }
)


def _experts(header: GgufHeader, arch: str, gating: int) -> JsonObject:
    """The keys of a config that experts have; a row's shares sum to 1 unless the file denies it."""
    stated_gating = header.metadata.get(f"{arch}.expert_gating_func", gating)
    if stated_gating != gating:
        raise EdgespecError(
            f"{header.path}: {arch}.expert_gating_func is {shortened(stated_gating)}, not {gating}"
        )
    return {
        "num_experts": count(header, f"{arch}.expert_count"),
        "num_experts_per_tok": count(header, f"{arch}.expert_used_count"),
        "moe_intermediate_size": count(header, f"{arch}.expert_feed_forward_length"),
        "norm_topk_prob": header.metadata.get(f"{arch}.expert_weights_norm", True),
    }


def _qwen3moe(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "qwen3moe", "Qwen3MoeForCausalLM")
    scale = number(header, "qwen3moe.expert_weights_scale", 1.0)
    if scale not in (0, 1):
        raise EdgespecError(f"{header.path}: qwen3moe.expert_weights_scale is {scale}, not 1")
    layers = range(stated(config, "num_hidden_layers"))
    dense = [n for n in layers if f"blk.{n}.ffn_gate_inp.weight" not in header.tensors]
    experts = _experts(header, "qwen3moe", SOFTMAX)
    return {**config, **experts, "model_type": "qwen3_moe", "mlp_only_layers": [*dense]}


def _lfm2moe(header: GgufHeader) -> JsonObject:
    first = header.metadata.get("lfm2moe.leading_dense_block_count", 0)
    return {
        **lfm2_config(header, "lfm2moe"),
        **_experts(header, "lfm2moe", SIGMOID),
        "model_type": "lfm2_moe",
        "architectures": ["Lfm2MoeForCausalLM"],
        "num_dense_layers": first,
        "use_expert_bias": any(".exp_probs_b." in name for name in header.tensors),
        "routed_scaling_factor": number(header, "lfm2moe.expert_weights_scale", 1.0) or 1.0,
    }


def _gpt_oss(header: GgufHeader) -> JsonObject:
    """Every other layer has the window. YaRN's bounds are no whole pairs; files do not say so."""
    config = decoder_config(header, "gpt-oss", "GptOssForCausalLM")
    scaling = config["rope_scaling"] or {"rope_type": "default"}
    assert isinstance(scaling, dict)
    rounded = {"truncate": False} if scaling["rope_type"] == "yarn" else {}
    experts = _experts(header, "gpt-oss", SOFTMAX_WEIGHT)
    del experts["norm_topk_prob"]
    return {
        **config,
        **experts,
        "model_type": "gpt_oss",
        "rope_scaling": {**scaling, **rounded},
        "sliding_window": count(header, "gpt-oss.attention.sliding_window"),
        **layer_types(header, "gpt-oss", stated(config, "num_hidden_layers"), 2),
    }


QWEN3MOE = decoder(
    "qwen3moe",
    _qwen3moe,
    "qwen3_moe",
    layer={
        **LAYER,
        "ffn_gate_inp": "mlp.gate",
        "ffn_gate_exps": f"mlp.experts.{EXPERT}.gate_proj",
        "ffn_up_exps": f"mlp.experts.{EXPERT}.up_proj",
        "ffn_down_exps": f"mlp.experts.{EXPERT}.down_proj",
    },
    keys=_KEYS,
)
LFM2MOE = decoder(
    "lfm2moe",
    _lfm2moe,
    "lfm2_moe",
    layer={
        **LFM2_LAYER,
        "ffn_gate_inp": "feed_forward.gate",
        "ffn_gate_exps": f"feed_forward.experts.{EXPERT}.w1",
        "ffn_up_exps": f"feed_forward.experts.{EXPERT}.w3",
        "ffn_down_exps": f"feed_forward.experts.{EXPERT}.w2",
        "exp_probs_b": "feed_forward.expert_bias",
    },
    outside=LFM2_OUTSIDE,
    of_config=frozenset(),
    squeezed=(".conv.conv.weight",),
    keys=_KEYS | {"shortconv.l_cache", "leading_dense_block_count"},
    without_suffix=frozenset({"feed_forward.expert_bias"}),
)
GPT_OSS = decoder(
    "gpt-oss",
    _gpt_oss,
    "gpt_oss",
    layer={
        **LAYER,
        "attn_sinks": "self_attn.sinks",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_gate_inp": "mlp.router",
        "ffn_gate_exps": f"mlp.experts.{EXPERT}.gate_proj",
        "ffn_up_exps": f"mlp.experts.{EXPERT}.up_proj",
        "ffn_down_exps": f"mlp.experts.{EXPERT}.down_proj",
    },
    without_suffix=frozenset({"self_attn.sinks"}),
    keys=_KEYS | WINDOWS,
)
