"""More forms of gguf_checkpoints.py: Llamas, Gemmas, norms after blocks, layer norms, own code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from family_corpus import LLAMA3
from gguf_checkpoints import (
    FORMS,
    LLAMA_NAMES,
    Config,
    Form,
    of_decoder,
    of_experts,
    of_llama,
    rope_of,
)

__all__ = ["ALL_FORMS", "APART", "MORE_FORMS"]

TRAINED = 8192  # positions of all models with Llama 3's scaling; a file does not state them
LLAMA3_8192 = {"rope_scaling": {**LLAMA3, "original_max_position_embeddings": TRAINED}}
HEADS_NAMES = {**LLAMA_NAMES, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
AFTER_NAMES = {
    **HEADS_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
APERTUS_NAMES = {
    **HEADS_NAMES,
    "attention_layernorm": "attn_norm",
    "feedforward_layernorm": "ffn_norm",
}
INTERNLM2_NAMES = {
    **LLAMA_NAMES,
    "model.tok_embeddings": "token_embd",
    "attention_norm": "attn_norm",
    "attention.wo": "attn_output",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
}
PHI2_NAMES = {
    "model.final_layernorm": "output_norm",
    **LLAMA_NAMES,
    "self_attn.dense": "attn_output",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}
NEOX_NAMES = {
    "gpt_neox.embed_in": "token_embd",
    "gpt_neox.final_layer_norm": "output_norm",
    "gpt_neox.layers": "blk",
    "embed_out": "output",
    "transformer.word_embeddings_layernorm": "token_embd_norm",
    "transformer.word_embeddings": "token_embd",
    "transformer.ln_f": "output_norm",
    "transformer.h": "blk",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attention.query_key_value": "attn_qkv",
    "self_attention.dense": "attn_output",
    "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up",
    "mlp.dense_4h_to_h": "ffn_down",
}


def llama3_divisors(config: Config) -> dict[str, Any]:
    """What each frequency is divided by."""
    rope = rope_of(config)
    if rope.get("rope_type") != "llama3":
        return {}
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    waves = 2 * math.pi * rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((TRAINED / waves - low) / (high - low), 0, 1)
    divisors = 1 / ((1 - smooth) / rope["factor"] + smooth)
    return {"rope_freqs.weight": divisors.astype(np.float32)}


def of_qwen3vl(config: Config) -> dict[str, Any]:
    """Of three parts of a head's pairs, the converter writes a fourth one of none."""
    sections = [*rope_of(config)["mrope_section"], 0]
    return {**of_decoder(config), "rope.dimension_sections": sections, "n_deepstack_layers": 0}


def of_gemma(config: Config) -> dict[str, Any]:
    """Gemma 1 to 3."""
    keys = of_decoder(config)
    if config["model_type"] == "gemma":
        return keys
    keys["attention.sliding_window"] = config["sliding_window"]
    if config["model_type"] == "gemma2":
        caps = ("attn_logit_softcapping", "final_logit_softcapping")
        return keys | {cap: config[cap] for cap in caps}
    local = config["rope_parameters"]["sliding_attention"]["rope_theta"]
    return keys | {"rope.freq_base_swa": float(local)}


def of_olmo(config: Config) -> dict[str, Any]:
    keys = of_decoder(config)
    if config["model_type"] == "olmo2":
        return keys
    windowed = [kind == "sliding_attention" for kind in config["layer_types"]]
    return {
        **keys,
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": windowed,
    }


def of_layer_normed(config: Config) -> dict[str, Any]:
    rope = rope_of(config)
    size = config["hidden_size"] // config["num_attention_heads"]
    heads = config["num_attention_heads"]
    keys = {
        **of_decoder(
            {
                **{**config, "rms_norm_eps": 0.0, "head_dim": None},
                "num_key_value_heads": config.get("num_key_value_heads") or heads,
            }
        ),
        "attention.layer_norm_epsilon": config["layer_norm_eps"],
        "rope.dimension_count": int(size * rope.get("partial_rotary_factor", 1.0)),
    }
    unwritten = ("attention.layer_norm_rms_epsilon", "rope.freq_base")
    return {key: value for key, value in keys.items() if key not in unwritten}


def of_stablelm(config: Config) -> dict[str, Any]:
    """A config without the key is written as a parallel one."""
    return {**of_layer_normed(config), "use_parallel_residual": True}


def of_neox(config: Config) -> dict[str, Any]:
    keys = of_layer_normed(config)
    del keys["attention.head_count_kv"]
    return {**keys, "use_parallel_residual": config["use_parallel_residual"]}


def of_bloom(config: Config) -> dict[str, Any]:
    return {
        "context_length": 128,
        "embedding_length": config["hidden_size"],
        "feed_forward_length": 4 * config["hidden_size"],
        "block_count": config["n_layer"],
        "attention.head_count": config["n_head"],
        "attention.head_count_kv": config["n_head"],
        "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
    }


def of_minicpm(config: Config) -> dict[str, Any]:
    return {
        **of_decoder({**config, "rope_parameters": {"rope_theta": 10000.0}}),
        "embedding_scale": float(config["scale_emb"]),
        "residual_scale": config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
        "logit_scale": config["hidden_size"] / config["dim_model_base"],
    }


def of_own_code(config: Config) -> dict[str, Any]:
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    rope = {"rope_theta": 10000.0}
    return of_decoder({**config, "rope_parameters": rope, "num_key_value_heads": heads})


def queries_first(name: str, tensor: Any, config: Config) -> dict[str, Any]:
    """The queries of all heads, then the keys, then the values."""
    if "query_key_value" not in name:
        return {name: tensor}
    heads = config.get("num_attention_heads") or config["n_head"]
    by_part = tensor.reshape(heads, 3, -1, *tensor.shape[1:]).swapaxes(0, 1)
    return {name: by_part.reshape(tensor.shape)}


def internlm2_apart(name: str, tensor: Any, config: Config) -> dict[str, Any]:
    """Queries of a key, the key and the value follow each other, for each key."""
    if "attention.wqkv" not in name:
        return {"lm_head.weight" if name == "output.weight" else name: tensor}
    kv_count, width = config["num_key_value_heads"], config["hidden_size"]
    size = width // config["num_attention_heads"]
    grouped = tensor.reshape(kv_count, -1, size, width)
    parts = {"q": grouped[:, :-2], "k": grouped[:, -2], "v": grouped[:, -1]}
    return {
        name.replace("attention.wqkv", f"self_attn.{part}_proj"): rows.reshape(-1, width)
        for part, rows in parts.items()
    }


def baichuan_apart(name: str, tensor: Any, config: Config) -> dict[str, Any]:
    """Who converts a Baichuan 2 normalises its head before."""
    if name == "lm_head.weight":
        return {name: tensor / np.linalg.norm(tensor, axis=1, keepdims=True)}
    if "W_pack" not in name:
        return {name: tensor}
    parts = zip("qkv", np.split(tensor, 3), strict=True)
    return {name.replace("W_pack", f"{part}_proj"): rows for part, rows in parts}


def of_gpt_oss(config: Config) -> dict[str, Any]:
    return {
        **of_decoder(config),
        **of_experts({**config, "moe_intermediate_size": config["intermediate_size"]}),
        "attention.sliding_window": config["sliding_window"],
    }


def gpt_oss_apart(name: str, tensor: Any, config: Config) -> dict[str, Any]:
    """Matrices [experts, out, in]; those that read have rows of gates and inputs in turns."""
    kind = "bias" if name.endswith("_bias") else "weight"
    name = name.removesuffix("_bias")
    if not name.endswith(("gate_up_proj", "down_proj")):
        return {f"{name}.weight" if name.endswith(".sinks") else name: tensor}
    rows = tensor if kind == "bias" else tensor.swapaxes(1, 2)
    at = name.replace("mlp.experts.", "mlp.")
    if name.endswith("down_proj"):
        return {f"{at}_exps.{kind}": rows}
    parts = (("gate_proj", 0), ("up_proj", 1))
    return {f"{at.replace('gate_up_proj', part)}_exps.{kind}": rows[:, of::2] for part, of in parts}


GPT_OSS_NAMES = {
    **LLAMA_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "self_attn.sinks": "attn_sinks",
    "mlp.router": "ffn_gate_inp",
    **{f"mlp.{part}_proj_exps": f"ffn_{part}_exps" for part in ("gate", "up", "down")},
}
STABLELM_NAMES = {
    **LLAMA_NAMES,
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
}
_OF_NEOX: dict[str, Any] = {
    **{"arch": "gptneox", "keys": of_neox, "names": NEOX_NAMES, "prepared": queries_first},
    "changes": {"tie_word_embeddings": False},
}
_MORE = (
    Form("SmolLM2", "llama", of_llama, reorders=True),
    Form("Llama 3.2", "llama", of_llama, reorders=True, extra=llama3_divisors, changes=LLAMA3_8192),
    Form("Qwen2.5 base, R1-Distill-Qwen", "qwen2", of_decoder),
    Form("Qwen3", "qwen3", of_decoder, HEADS_NAMES),
    Form("Qwen3 for long texts", "qwen3", of_decoder, HEADS_NAMES),
    Form("Qwen3-VL 2B, 4B, 8B", "qwen3vl", of_qwen3vl, HEADS_NAMES),
    Form("Gemma 1 2B", "gemma", of_gemma, LLAMA_NAMES, norms_with_one=True),
    Form("Gemma 2 2B", "gemma2", of_gemma, AFTER_NAMES, norms_with_one=True),
    Form("Gemma 3 270m", "gemma3", of_gemma, AFTER_NAMES, norms_with_one=True),
    Form("OLMo 2", "olmo2", of_olmo, AFTER_NAMES),
    Form("OLMo 3", "olmo2", of_olmo, AFTER_NAMES),
    Form(
        "EXAONE 4.0 1.2B",
        "exaone4",
        of_decoder,
        AFTER_NAMES,
        extra=llama3_divisors,
        changes=LLAMA3_8192,
    ),
    Form(
        "Apertus 8B",
        "apertus",
        of_llama,
        APERTUS_NAMES,
        extra=llama3_divisors,
        changes=LLAMA3_8192,
    ),
    Form("StableLM 2 1.6B", "stablelm", of_stablelm, STABLELM_NAMES),
    Form("StableLM 2 12B", "stablelm", of_stablelm, STABLELM_NAMES),
    Form("Phi-2, Phi-1.5", "phi2", of_layer_normed, PHI2_NAMES),
    Form("Pythia, GPT-NeoX 20B", **_OF_NEOX),
    Form("RedPajama", **_OF_NEOX),
    Form("BLOOM, BLOOMZ", "bloom", of_bloom, NEOX_NAMES, prepared=queries_first),
    Form("MiniCPM 2B, MiniCPM 4", "minicpm", of_minicpm, reorders=True),
)
# Matrices that are one in the checkpoint are several in a file, which is read as it is.
_APART = (
    Form(
        "InternLM 2.5",
        "internlm2",
        of_own_code,
        INTERNLM2_NAMES,
        reorders=True,
        prepared=internlm2_apart,
    ),
    Form(
        "gpt-oss 20B",
        "gpt-oss",
        of_gpt_oss,
        GPT_OSS_NAMES,
        prepared=gpt_oss_apart,
        changes={"swiglu_limit": 7.0},  # a file does not state it
    ),
    Form(
        "Baichuan 2 7B",
        "baichuan",
        of_own_code,
        reorders=True,
        prepared=baichuan_apart,
        changes={"num_hidden_layers": 32},  # with fewer or more llama.cpp takes it for another
    ),
)
MORE_FORMS = {form.model: form for form in _MORE}
APART = {form.model: form for form in _APART}
ALL_FORMS = FORMS | MORE_FORMS | APART
