"""Small configs of every family: as models are published, and as transformers saves them.

Sizes are shrunk; flags and keys are those of published models. `CASES` says of each whether it is
exported or which words its refusal has; docs/reference/families.md is made from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote_code import BAICHUAN_2, INTERNLM_2, MINICPM, Twin

SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
HEAD = {"head_dim": 16}
SEQ2SEQ = {
    **{"vocab_size": 320, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 40},
    **{"decoder_ffn_dim": 40, "max_position_embeddings": 128, "is_encoder_decoder": True},
    **{"decoder_start_token_id": 0, "forced_eos_token_id": None},
}
T5 = {
    **{"vocab_size": 320, "d_model": 32, "d_kv": 16, "d_ff": 40, "num_layers": 2, "num_heads": 2},
    **{"decoder_start_token_id": 0, "is_encoder_decoder": True},
}
NLLB_TOKENS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2}
PEGASUS = {
    **{"activation_function": "relu", "scale_embedding": True, "extra_pos_embeddings": 1},
    **{"add_bias_logits": False, "add_final_layer_norm": True, "normalize_before": True},
    **{"normalize_embedding": False, "static_position_embeddings": True, "num_beams": 8},
    **{"classif_dropout": 0.0, "force_bos_token_to_be_generated": False, "length_penalty": 0.8},
}
GPT2 = {"vocab_size": 320, "n_embd": 48, "n_head": 3, "n_layer": 3, "n_positions": 128}
VISION = {
    **{"hidden_size": 32, "image_size": 56, "intermediate_size": 64, "num_attention_heads": 2},
    **{"num_hidden_layers": 1, "patch_size": 14},
}
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
MINISTRAL3 = {
    **{**YARN, "type": "yarn", "factor": 16.0, "rope_theta": 1e6, "beta_fast": 32.0},
    **{"beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
}
LONGROPE = {"type": "longrope", "short_factor": [1.1] * 6, "long_factor": [2.0] * 6}
GRANITE = {
    **{"embedding_multiplier": 12.0, "residual_multiplier": 0.246},
    **{"attention_multiplier": 0.0625, "logits_scaling": 4.0},
}
GRANITE4 = {
    **GRANITE,
    **{"layer_types": ["attention"] * 3, "num_local_experts": 0, "num_experts_per_tok": 0},
    **{"shared_intermediate_size": 48, "tie_word_embeddings": True, "mamba_n_heads": 4},
}
GEMMA2 = {
    **{"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 24},
    **{"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"},
    **{"query_pre_attn_scalar": 16, "cache_implementation": "hybrid"},
}
LLG = ["sliding_attention", "sliding_attention", "full_attention"]
GEMMA4 = {
    **{"num_hidden_layers": 6, "layer_types": 2 * LLG, "sliding_window": 24, **HEAD},
    **{"global_head_dim": 32, "num_key_value_heads": 1, "num_global_key_value_heads": None},
    **{"num_kv_shared_layers": 3, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16},
    **{"vocab_size_per_layer_input": 320, "final_logit_softcapping": 30.0, "attention_bias": False},
    **{"attention_k_eq_v": False, "enable_moe_block": False, "num_experts": None},
    **{"hidden_activation": "gelu_pytorch_tanh", "use_bidirectional_attention": None},
    "rope_parameters": {
        "full_attention": {
            **{"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"}
        },
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
}
GEMMA4_31B = {
    **{**GEMMA4, "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "attention_k_eq_v": True},
    **{"hidden_size_per_layer_input": 0, "num_key_value_heads": 2, "num_global_key_value_heads": 1},
    "use_bidirectional_attention": "vision",
}
OLMO3 = {"rms_norm_eps": 1e-6, "rope_theta": 500000, "sliding_window": 24, "layer_types": LLG}
OLMO3_YARN = {
    **{"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2079441541679836},
    **{"beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64},
}
EXAONE = {
    **{"sliding_window": None, "sliding_window_pattern": None, "rope_scaling": LLAMA3},
    **{"rope_theta": 1e6, "tie_word_embeddings": True},
}
LFM3 = {
    **{"conv_L_cache": 7, "sliding_window": 24, "use_attention_gate": True},
    "rope_parameters": {
        "full_attention": {
            **{"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5}
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
QWEN35 = {
    **{"head_dim": 32, "attn_output_gate": True, "full_attention_interval": 2},
    **{"layer_types": ["linear_attention", "full_attention", "linear_attention"]},
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_conv_kernel_dim": 4},
    **{"linear_key_head_dim": 16, "linear_value_head_dim": 16, "mamba_ssm_dtype": "float32"},
    **{"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "mlp_only_layers": []},
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25},
        **{"mrope_interleaved": True, "mrope_section": [2, 1, 1]},
    },
}
QWEN35_VISION = {
    **{"depth": 1, "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 64},
    **{"hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "deepstack_visual_indexes": []},
    **{"spatial_merge_size": 2, "temporal_patch_size": 2, "patch_size": 16, "hidden_size": 32},
    "intermediate_size": 64,
}
QWEN3_VL = {"mrope_interleaved": True, "mrope_section": [3, 3, 2]}
NEOX = {"rotary_emb_base": 10000, "hidden_act": "gelu", "layer_norm_eps": 1e-5}
PHI2 = {
    **{"partial_rotary_factor": 0.4, "embd_pdrop": 0.0, "resid_pdrop": 0.1, "qk_layernorm": False},
    **{"hidden_act": "gelu_new", "num_key_value_heads": 4, "rope_scaling": None},
}
OPT = {
    **{"vocab_size": 320, "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "max_position_embeddings": 128, "prefix": "</s>"},
}
BLOOM = {
    **{"vocab_size": 320, "n_embed": 48, "n_layer": 3, "num_attention_heads": 6, "n_inner": None},
    **{"seq_length": 128, "offset_alibi": 100, "skip_bias_add": True, "pretraining_tp": 1},
    **{"attention_softmax_in_fp32": True, "masked_softmax_fusion": True, "unk_token_id": 0},
}
T5GEMMA_PART = {
    **{**SIZES, **HEAD, "num_hidden_layers": 2, "query_pre_attn_scalar": 16, "dropout_rate": 0.0},
    **{"sliding_window": 12, "rope_theta": 1e4, "hidden_activation": "gelu_pytorch_tanh"},
    **{"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, **TOKENS},
}
T5GEMMA = {
    "encoder": {**T5GEMMA_PART, "hidden_size": 48, "is_decoder": False},
    "decoder": {**T5GEMMA_PART, "is_decoder": True, "cross_attention_hidden_size": 48},
    **{"is_encoder_decoder": True, "vocab_size": 320, "dropout_rate": 0.0},
}
T5GEMMA2_PART = {
    **{**SIZES, **HEAD, "num_hidden_layers": 3, "query_pre_attn_scalar": 16, **TOKENS},
    **{"sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
T5GEMMA2_PART["layer_types"] = T5GEMMA2_PART["layer_types"][:3]
T5GEMMA2 = {
    "encoder": {
        **{"model_type": "t5gemma2_encoder", "eoi_token_index": 163, "image_token_index": 105},
        "text_config": {**T5GEMMA2_PART, "model_type": "t5gemma2_text"},
        "vision_config": {
            **{**VISION, "model_type": "siglip_vision_model", "vision_use_head": False},
        },
        "mm_tokens_per_image": 4,
    },
    "decoder": {**T5GEMMA2_PART, "model_type": "t5gemma2_decoder"},
    **{"is_encoder_decoder": True, "eoi_token_index": 163, "image_token_index": 105},
    "tie_word_embeddings": True,
}
GPT_OSS = {
    **{"num_local_experts": 4, "num_experts_per_tok": 2, "experts_per_token": 2},
    **{"sliding_window": 24, "attention_bias": True, "swiglu_limit": 0.5, "rms_norm_eps": 1e-5},
    **{"initial_context_length": 32, "rope_theta": 150000, "router_aux_loss_coef": 0.9},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_scaling": {**YARN, "factor": 8.0, "truncate": False, "beta_fast": 32.0, "beta_slow": 1.0},
}
UNSLOTH = {"unsloth_version": "2025.9.1", "unsloth_fixed": True}
MROPE = {"use_mrope": False, "use_sliding_window": False, "sliding_window": 64}
HUNYUAN = {
    **{"attention_head_dim": 16, "cla_share_factor": 2, "class_num": 0, "dense_list": [64, 0]},
    **{"im_end_id": 5, "im_newline_id": 11, "mask_init_id": 12, "pad_id": 7, "pool_type": "last"},
    **{"norm_type": "rms", "use_qk_norm": True, "use_cla": False, "org_vocab_size": 320},
    "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0},
}


@dataclass(frozen=True)
class Case:
    """A config and what becomes of it.

    Attributes:
        model: what it is a small copy of.
        model_type: of the config, or of its text part.
        keys: of the config besides the sizes.
        sizes: the sizes and tokens.
        wrapper: the outer config of a model that also reads images or sound; its class first.
        refused: words of the refusal; empty if it is exported.
        twin: what transformers has in its place, if the model's code comes with it.
        default: tested without EDGESPEC_CORPUS=all.
        brief: tested then as it is published only.
    """

    model: str
    model_type: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    wrapper: Mapping[str, Any] | None = None
    refused: str = ""
    default: bool = False
    brief: bool = False
    twin: Twin | None = None

    @property
    def config(self) -> dict[str, Any]:
        text = {"model_type": self.model_type, **TOKENS, **self.sizes, **self.keys}
        if self.wrapper is None:
            return text
        return {**self.wrapper, "text_config": text, "eos_token_id": TOKENS["eos_token_id"]}


def _wrapper(name: str, model_type: str, tower: str, **keys: Any) -> dict[str, Any]:
    vision_config = {**VISION, "model_type": tower, **keys.pop("vision", {})}
    kind = {"architectures": [f"{name}ForConditionalGeneration"], "model_type": model_type}
    return {**kind, "vision_config": vision_config, **keys}


CASES = (
    Case("Llama 3.2", "llama", {**HEAD, "rope_scaling": LLAMA3, "rope_theta": 5e5}),
    Case("a fine-tune by unsloth", "llama", {**UNSLOTH, "hidden_act": "swish"}, default=True),
    Case("SmolLM2", "llama", {"is_llama_config": True, "rope_interleaved": False}),
    Case("MiniCPM5, Yi, Falcon 3", "llama", {**HEAD, "tie_word_embeddings": True}),
    Case("Mistral 7B v0.3", "mistral", {"sliding_window": None, "do_sample": True}),
    Case("Mistral 7B v0.1", "mistral", {"sliding_window": 24}, default=True),
    Case("Ministral 8B, windows off", "ministral", {**HEAD, "sliding_window": 256}, default=True),
    Case(
        "Ministral 8B",
        "ministral",
        {
            **HEAD,
            "sliding_window": 24,
            "layer_types": ["full_attention", *["sliding_attention"] * 2],
        },
        default=True,
    ),
    Case("Ministral 8B, all layers", "ministral", {**HEAD, "sliding_window": 24}),
    Case("Qwen2.5 base, R1-Distill-Qwen", "qwen2", {**MROPE, "max_window_layers": 3}, default=True),
    Case(
        "Qwen2 with windows of all positions",
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 256, "max_window_layers": 1},
    ),
    Case(
        "Qwen2 with windows from a layer on",
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
        default=True,
    ),
    Case("Qwen3", "qwen3", {**HEAD, "tie_word_embeddings": True}),
    Case(
        "Qwen3 for long texts",
        "qwen3",
        {**HEAD, "rope_scaling": YARN, "max_position_embeddings": 80},
        default=True,
    ),
    Case(
        "Qwen3 30B-A3B",
        "qwen3_moe",
        {
            **{**HEAD, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
            **{"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1]},
            "router_aux_loss_coef": 0.001,
        },
    ),
    Case("gpt-oss 20B", "gpt_oss", {**HEAD, **GPT_OSS}),
    Case(
        "R1-0528-Qwen3-8B", "qwen3", {**HEAD, "rope_scaling": {**YARN, "attn_factor": 0.878248856}}
    ),
    Case(
        "AFM 4.5B",
        "arcee",
        {**HEAD, "rope_scaling": {**YARN, "mscale": 1.0, "beta_fast": 32.0, "beta_slow": 1.0}},
        default=True,
    ),
    Case("SmolLM3 without a base and a tie", "smollm3", default=True),
    Case("Granite 3.3", "granite", GRANITE),
    Case(
        "Granite 4.0 350m, 1b, micro",
        "granitemoehybrid",
        {**GRANITE4, "position_embedding_type": "rope"},
        default=True,
    ),
    Case("Granite 4.0 without positions", "granitemoehybrid", GRANITE4),
    Case(
        "Granite 4.0-H",
        "granitemoehybrid",
        {**GRANITE4, "layer_types": ["mamba", "mamba", "attention"]},
        refused="2 of 3 layers are state-space layers",
    ),
    Case("Hunyuan 7B, Hunyuan-MT", "hunyuan_v1_dense", {**HEAD, **HUNYUAN}, default=True),
    Case("Seed-OSS", "seed_oss", HEAD),
    Case("Seed-OSS with other biases", "seed_oss", {**HEAD, "attention_out_bias": True}),
    Case(
        "InternLM3",
        "internlm3",
        {
            **HEAD,
            "bias": False,
            "qkv_bias": False,
            "rope_scaling": {"type": "dynamic", "factor": 6.0},
        },
    ),
    Case("Helium", "helium", HEAD),
    Case("GLM-Edge", "glm", HEAD, default=True),
    Case("ERNIE 4.5 0.3B", "ernie4_5", HEAD),
    Case(
        "Gemma 3 270m", "gemma3_text", {**HEAD, "sliding_window": 24, "query_pre_attn_scalar": 16}
    ),
    Case(
        "Gemma 3 with an older key",
        "gemma3_text",
        {**HEAD, "rope_scaling": {"type": "linear", "factor": 8.0}},
        refused="write it as rope_type",
    ),
    Case("Gemma 1 2B", "gemma", {**HEAD, "hidden_act": "gelu", "hidden_activation": None}),
    Case("Gemma 2 2B", "gemma2", {**HEAD, **GEMMA2}, default=True),
    Case("Gemma 4 E2B, E4B", "gemma4_text", GEMMA4),
    Case("Gemma 4 31B", "gemma4_text", GEMMA4_31B, default=True),
    Case(
        "Gemma 4 26B-A4B",
        "gemma4_text",
        {
            **{**GEMMA4_31B, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2},
            "moe_intermediate_size": 32,
        },
        refused="enable_moe_block = true",
    ),
    Case("OLMo 2", "olmo2", {"rms_norm_eps": 1e-6, "rope_theta": 5e5}, default=True),
    Case("OLMo 3 before its training on long texts", "olmo3", OLMO3),
    Case("OLMo 3", "olmo3", {**OLMO3, "rope_scaling": OLMO3_YARN}, default=True),
    Case("EXAONE 4.0 1.2B", "exaone4", {**EXAONE, "layer_types": ["full_attention"] * 3}),
    Case(
        "EXAONE 4.0 32B",
        "exaone4",
        {**EXAONE, "sliding_window": 24, "sliding_window_pattern": "LLLG", "layer_types": LLG},
        default=True,
    ),
    Case(
        "Apertus 8B",
        "apertus",
        {
            **{"hidden_act": "xielu", "qk_norm": True, "post_norm": False, "mlp_bias": False},
            **{"rope_scaling": LLAMA3, "rope_theta": 12e6},
        },
    ),
    Case("GLM-4 9B 0414", "glm4", {**HEAD, "partial_rotary_factor": 0.5}),
    Case(
        "MiniCPM 2B, MiniCPM 4",
        "minicpm",
        {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16, "rms_norm_eps": 1e-6},
        twin=MINICPM,
    ),
    Case(
        "InternLM 2.5",
        "internlm2",
        {"bias": False, "rope_scaling": {"type": "dynamic", "factor": 2.0}, "rms_norm_eps": 1e-6},
        twin=INTERNLM_2,
    ),
    Case(
        "Baichuan 2 7B",
        "baichuan",
        {
            **{"z_loss_weight": 0, "_from_model_config": True, "model_max_length": 256},
            **{"num_key_value_heads": None, "rms_norm_eps": 1e-6},
        },
        twin=BAICHUAN_2,
    ),
    Case(
        "StableLM 2 1.6B",
        "stablelm",
        {"use_qkv_bias": True, "partial_rotary_factor": 0.25, "rope_theta": 10000},
    ),
    Case(
        "StableLM 2 12B",
        "stablelm",
        {
            **{"use_qkv_bias": False, "partial_rotary_factor": 0.25, "qk_layernorm": True},
            "use_parallel_residual": True,
        },
        default=True,
        brief=True,
    ),
    Case("Pythia, GPT-NeoX 20B", "gpt_neox", {**NEOX, "rotary_pct": 0.25}),
    Case(
        "RedPajama",
        "gpt_neox",
        {**NEOX, "rotary_pct": 1.0, "use_parallel_residual": False},
    ),
    Case("Phi-2, Phi-1.5", "phi", PHI2),
    Case(
        "OPT 125M",
        "opt",
        {"word_embed_proj_dim": 64, "do_layer_norm_before": True, "dropout": 0.1},
        OPT,
    ),
    Case(
        "OPT 350M",
        "opt",
        {"word_embed_proj_dim": 32, "do_layer_norm_before": False},
        OPT,
    ),
    Case("BLOOM, BLOOMZ", "bloom", {}, BLOOM, default=True, brief=True),
    Case("Phi-3 mini", "phi3", {"sliding_window": 24}, default=True),
    Case(
        "Phi-4-mini",
        "phi3",
        {
            **{"full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": False},
            **{"mlp_bias": False, "original_max_position_embeddings": 128},
            **{"partial_rotary_factor": 0.75, "rope_scaling": LONGROPE, "sliding_window": 512},
        },
        default=True,
    ),
    Case(
        "GPT-2 medium, distilgpt2",
        "gpt2",
        {"n_special": 0, "predict_special_tokens": True, "_num_labels": 1, "n_ctx": 128},
        GPT2,
        default=True,
    ),
    Case(
        "LFM2, LFM2.5",
        "lfm2",
        {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    ),
    Case(
        "LFM2-8B-A1B, LFM2.5-8B-A1B",
        "lfm2_moe",
        {
            **{"layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1},
            **{"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
            **{"norm_topk_prob": True, "use_expert_bias": True, "routed_scaling_factor": 1.0},
        },
        default=True,
        brief=True,
    ),
    Case(
        "LFM3 1.7B",
        "lfm3",
        {**HEAD, "layer_types": ["conv", "full_attention", "sliding_attention"], **LFM3},
    ),
    Case("Qwen3.5, its text model alone", "qwen3_5_text", QWEN35),
    Case("T5 v1.0", "t5", {}, T5),
    Case("T5 v1.1, flan-T5", "t5", {"feed_forward_proj": "gated-gelu"}, T5),
    Case("mT5, ByT5", "mt5", {"tie_word_embeddings": False}, T5, default=True),
    Case(
        "UMT5",
        "umt5",
        {
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "dense_act_fn": "gelu_new",
        },
        T5,
        default=True,
    ),
    Case("BART", "bart", {"n_positions": 9}, SEQ2SEQ),
    Case("mBART-50", "mbart", {"scale_embedding": True}, SEQ2SEQ),
    Case("Marian", "marian", {"scale_embedding": True}, SEQ2SEQ),
    Case(
        "NLLB-200, M2M100",
        "m2m_100",
        {"activation_function": "relu", "scale_embedding": True, "max_length": 200, **NLLB_TOKENS},
        SEQ2SEQ,
        default=True,
    ),
    Case("Pegasus", "pegasus", PEGASUS, SEQ2SEQ, default=True),
    Case("T5Gemma", "t5gemma", T5GEMMA, {}),
    Case("T5Gemma 2", "t5gemma2", T5GEMMA2, {}),
    Case(
        "Gemma 4 E2B, E4B with towers",
        "gemma4_text",
        GEMMA4,
        wrapper=_wrapper("Gemma4", "gemma4", "gemma4_vision", vision={"head_dim": 16}),
        default=True,
    ),
    Case(
        "Gemma 3 4B",
        "gemma3_text",
        {**HEAD, "sliding_window": 24, "query_pre_attn_scalar": 16},
        wrapper=_wrapper(
            "Gemma3", "gemma3", "siglip_vision_model", vision={"vision_use_head": False}
        ),
    ),
    Case(
        "Qwen3-VL 2B, 4B, 8B",
        "qwen3_vl_text",
        {
            **{**HEAD, "rope_theta": 5e6, "tie_word_embeddings": True, "attention_bias": False},
            "rope_scaling": {"rope_type": "default", **QWEN3_VL},
        },
        wrapper={
            **{"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl"},
            **{"image_token_id": 10, "vision_config": {**QWEN35_VISION, "model_type": "qwen3_vl"}},
            "tie_word_embeddings": True,
        },
    ),
    Case(
        "EmbeddingGemma",
        "gemma3_text",
        {**HEAD, "sliding_window": 24, "use_bidirectional_attention": True},
        refused="makes vectors, such as EmbeddingGemma, and generates no text",
    ),
    Case(
        "Mistral Small 3.1",
        "mistral",
        {**HEAD, "sliding_window": None},
        wrapper=_wrapper("Mistral3", "mistral3", "pixtral", vision=HEAD, image_token_index=10),
        default=True,
    ),
    Case(
        "Ministral 3",
        "ministral3",
        {**HEAD, "rope_parameters": MINISTRAL3, "tie_word_embeddings": True},
        wrapper=_wrapper("Mistral3", "mistral3", "pixtral", vision=HEAD, image_token_index=10),
        default=True,
    ),
    Case(
        "LLaVA",
        "llama",
        wrapper=_wrapper("Llava", "llava", "clip_vision_model", image_token_index=10),
    ),
    Case(
        "SmolVLM",
        "llama",
        wrapper=_wrapper("SmolVLM", "smolvlm", "smolvlm_vision", image_token_id=10, scale_factor=2),
    ),
    Case(
        "LFM3-VL",
        "lfm3",
        {**HEAD, "layer_types": ["conv", "full_attention", "sliding_attention"], **LFM3},
        wrapper=_wrapper(
            "Lfm3Vl",
            "lfm3_vl",
            "lfm3_vl_vision",
            vision={"num_key_value_heads": 1, "layer_types": ["conv"]},
            image_token_id=10,
        ),
    ),
    Case(
        "Qwen3.5 0.8B, 2B, 4B, 9B",
        "qwen3_5_text",
        {**QWEN35, "tie_word_embeddings": True},
        wrapper={
            **{"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"},
            **{"image_token_id": 10, "vision_config": {**QWEN35_VISION, "model_type": "qwen3_5"}},
            "tie_word_embeddings": True,
        },
        default=True,
    ),
    Case(
        "LFM2-VL",
        "lfm2",
        {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
        wrapper=_wrapper(
            "Lfm2Vl",
            "lfm2_vl",
            "siglip2_vision_model",
            vision={"num_patches": 16},
            image_token_id=10,
        ),
    ),
)


def as_version_4(config: dict[str, Any]) -> dict[str, Any]:
    """The config as transformers 4.54 names its keys."""
    rope = config.get("rope_parameters")
    older = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype")}
    if isinstance(rope, dict) and "rope_theta" in rope:
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        partial = scaling.pop("partial_rotary_factor", None)
        older["rope_theta"] = rope["rope_theta"]
        older["rope_scaling"] = None if scaling == {"rope_type": "default"} else scaling
        older |= {} if partial is None else {"partial_rotary_factor": partial}
    elif rope is not None:
        older["rope_parameters"] = rope
    return {**older, "torch_dtype": "float32", "transformers_version": "4.54.1"}


def write_model(case: Case, folder: Path) -> Any:
    """A random checkpoint of a case as transformers saves it; returns the model in float32.

    That of a model with code of its own is as it is published.
    """
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    config = case.config
    if case.twin is not None:
        sizes = {**TOKENS, **case.sizes, "rms_norm_eps": 1e-6, **case.twin.keys}
        config = {"model_type": case.twin.model_type, **sizes}
    (folder / "config.json").write_text(json.dumps(config))
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(0)
    if case.wrapper is not None:
        model = getattr(transformers, case.wrapper["architectures"][0])(config)
    elif config.is_encoder_decoder:
        model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name for part in ("vision", "embed_positions")):
                continue
            table = any(part in name for part in ("embed", "shared.", "wte", "lm_head"))
            if parameter.ndim > 1:
                parameter.normal_(0, (3 if table else 1) * parameter.shape[-1] ** -0.5)
            else:  # norms of 1 and biases of 0 would hide mistakes
                parameter.add_(0.2 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("expert_bias"):
                buffer.normal_(0, 0.1)
    if case.twin is None:
        model.save_pretrained(folder)
        return model.eval()
    from safetensors.torch import save_file

    save_file(case.twin.stored(model), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(case.config))
    return model.eval()
