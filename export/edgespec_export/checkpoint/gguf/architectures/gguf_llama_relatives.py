"""Relatives of Llama: SmolLM3, Seed-OSS, ERNIE 4.5, AFM, Ministral 3, GLM-Edge, Hunyuan.

What a file does not state is what llama.cpp takes for its architecture.
"""

from __future__ import annotations

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    decoder,
    decoder_config,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, has_bias, number
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = [
    "ARCEE",
    "CHATGLM",
    "ERNIE4_5",
    "GLM4",
    "HUNYUAN_DENSE",
    "MISTRAL3",
    "SEED_OSS",
    "SMOLLM3",
]

_QKV = ("attn_q", "attn_k", "attn_v")
_LAYERS_PER_STILL_ONE = 4  # SmolLM3: every fourth layer has no rotary positions
_BETA, _LOG_MULTIPLIER = "attention.temperature_scale", "rope.scaling.yarn_log_multiplier"


def _smollm3(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "smollm3", "SmolLM3ForCausalLM")
    return {**config, "no_rope_layer_interval": _LAYERS_PER_STILL_ONE}


def _seed_oss(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "seed_oss", "SeedOssForCausalLM", biased=_QKV)
    return {**config, "attention_out_bias": has_bias(header, ("attn_output",))}


def _ernie4_5(header: GgufHeader) -> JsonObject:
    """One key says whether all projections have biases."""
    config = decoder_config(header, "ernie4_5", "Ernie4_5ForCausalLM")
    return {**config, "use_bias": config["attention_bias"]}


def _arcee(header: GgufHeader) -> JsonObject:
    return {**decoder_config(header, "arcee", "ArceeForCausalLM"), "hidden_act": "relu2"}


def _mistral3(header: GgufHeader) -> JsonObject:
    """The converter's name for any Mistral in a wrapper: a Ministral 3 scales its queries."""
    config = decoder_config(header, "mistral3", "MistralForCausalLM")
    beta = number(header, f"mistral3.{_BETA}", 0.0)
    if not beta:
        return {**config, "model_type": "mistral"}
    scaling = config["rope_scaling"]
    if not isinstance(scaling, dict):
        raise EdgespecError(
            f"{header.path}: mistral3.{_BETA} = {beta} goes with the rope scaling 'yarn', which "
            "the file does not have: convert the model again"
        )
    rope = {**scaling, "rope_theta": config["rope_theta"], "llama_4_scaling_beta": beta}
    return {
        **config,
        "model_type": "ministral3",
        "architectures": ["Ministral3ForCausalLM"],
        "rope_scaling": None,
        "rope_parameters": rope,
    }


def _chatglm(header: GgufHeader) -> JsonObject:
    """Hugging Face's form of GLM."""
    return {**_of_glm(header, "chatglm", "GlmForCausalLM"), "model_type": "glm"}


def _glm4(header: GgufHeader) -> JsonObject:
    return _of_glm(header, "glm4", "Glm4ForCausalLM")


def _of_glm(header: GgufHeader, arch: str, hugging_face: str) -> JsonObject:
    """A part of each head is rotated."""
    config = decoder_config(header, arch, hugging_face, partial=True, biased=_QKV)
    size = stated(config, "head_dim")
    rotated = count(header, f"{arch}.rope.dimension_count", size // 2)
    return {**config, "partial_rotary_factor": rotated / size}


def _hunyuan(header: GgufHeader) -> JsonObject:
    """The file's rotary base is already raised by the config's "alpha"."""
    config = decoder_config(header, "hunyuan-dense", "HunYuanDenseV1ForCausalLM")
    return {**config, "model_type": "hunyuan_v1_dense"}


SMOLLM3 = decoder("smollm3", _smollm3, "smollm3", reorders_heads=True)
SEED_OSS = decoder(
    "seed_oss",
    _seed_oss,
    "seed_oss",
    layer={**LAYER, "post_attention_norm": "post_attention_layernorm"},
)
ERNIE4_5 = decoder("ernie4_5", _ernie4_5, "ernie4_5")
ARCEE = decoder("arcee", _arcee, "arcee", reorders_heads=True)
MISTRAL3 = decoder(
    "mistral3", _mistral3, "ministral3", "mistral", reorders_heads=True, keys=frozenset({_BETA})
)
CHATGLM = decoder("chatglm", _chatglm, "glm", layer={**LAYER, "ffn_up": "mlp.gate_up_proj"})
GLM4 = decoder(
    "glm4",
    _glm4,
    "glm4",
    layer={
        **LAYER,
        "ffn_up": "mlp.gate_up_proj",
        "post_attention_norm": "post_self_attn_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
    },
)
HUNYUAN_DENSE = decoder(
    "hunyuan-dense",
    _hunyuan,
    "hunyuan_v1_dense",
    layer={
        **LAYER,
        "attn_q_norm": "self_attn.query_layernorm",
        "attn_k_norm": "self_attn.key_layernorm",
    },
)
