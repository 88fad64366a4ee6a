"""A GGUF file's metadata as the Hugging Face config of the same model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import rope_scaling
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["ARCHITECTURES", "ARCHITECTURE_OF", "gguf_config"]

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
}
ARCHITECTURE_OF = {"gemma3_text": "gemma3", "olmo3": "olmo2"}  # model types of another name

_COUNTS = {
    "attention.head_count": "num_attention_heads",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
}

# Layers of the 27B models, whose scores have another scale. Files do not state it.
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
# What llama.cpp takes for a Gemma 2 whose file does not say.
_GEMMA2_SCORE_CAP, _GEMMA2_LOGIT_CAP, _GEMMA2_WINDOW = 50.0, 30.0, 4096
_WINDOWED_LAYERS_OF_EXAONE = 64  # smaller ones have no windows

# Keys that are read below or change nothing. Any other key might change the model: it is refused.
_KNOWN = {
    *_COUNTS,
    "attention.causal",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "expert_count",
    "expert_used_count",
    "pooling_type",  # of embeddings
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    # Of rope scaling "yarn", read with it (gguf_rope.py).
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",
    "vocab_size",
}
_WINDOWS = {"attention.sliding_window", "attention.sliding_window_pattern"}
# Further keys of an architecture. A Gemma 3's windowed layers may have heads and positions of
# their own.
_FURTHER = {
    "gemma2": {*_WINDOWS, "attn_logit_softcapping", "final_logit_softcapping"},
    "gemma3": {
        *_WINDOWS,
        *("attention.key_length_swa", "attention.value_length_swa"),
        *("rope.dimension_count_swa", "rope.freq_base_swa"),
    },
    "olmo2": _WINDOWS,
    "exaone4": _WINDOWS,
}
_SIZES = ("attention.value_length", "rope.dimension_count")
_SIZES_OF_WINDOWS = (
    *("attention.key_length_swa", "attention.value_length_swa"),
    "rope.dimension_count_swa",
)
# Keys that name a part or a change, with the value that says that there is none.
_NEUTRAL: dict[str, JsonValue] = {
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.scale": 0.0,
    "attention.shared_kv_layers": 0,
    "attn_logit_softcapping": 0.0,
    "embedding_scale": 1.0,
    "expert_shared_count": 0,
    "final_logit_softcapping": 0.0,
    "leading_dense_block_count": 0,
    "logit_scale": 1.0,
    "nextn_predict_layers": 0,
    "residual_scale": 1.0,
    "rope.scale_linear": 1.0,
    "rope.scaling.attn_factor": 1.0,
    "use_parallel_residual": False,
}


def gguf_config(header: GgufHeader) -> JsonObject:
    """The config a family reads: its `model_type`, its sizes and what else a file says.

    Mistral's GGUF files say llama and are read as such: without the sliding window the two models
    are the same.

    Raises:
        EdgespecError: another architecture, or a missing or unknown key, by name.
    """
    arch = header.metadata.get("general.architecture")
    if not isinstance(arch, str) or arch not in ARCHITECTURES:
        raise EdgespecError(
            f"{header.path}: architecture {shortened(arch)} is not one of "
            f"{', '.join(ARCHITECTURES)}; take the model's safetensors"
        )
    _refuse_unknown(header, arch)
    counts = {name: _count(header, f"{arch}.{key}") for key, name in _COUNTS.items()}
    heads = _heads(header, arch, counts["num_attention_heads"], counts["hidden_size"])
    theta = _number(header, f"{arch}.rope.freq_base", 10000.0)
    config: JsonObject = {
        "model_type": arch,
        "architectures": [ARCHITECTURES[arch]],
        **counts,
        **heads,
        "attention_bias": arch != "qwen2" and _has_bias(header, ("q", "k", "v", "output")),
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "hidden_act": "silu",
        "rms_norm_eps": _number(header, f"{arch}.attention.layer_norm_rms_epsilon"),
        "rope_scaling": rope_scaling(header, arch, theta, heads["head_dim"]),
        "rope_theta": theta,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": _vocab_size(header),
    }
    return {**config, **_DIFFERENCES[arch](header, config)} if arch in _DIFFERENCES else config


def _of_gemma(header: GgufHeader, config: JsonObject) -> JsonObject:
    return {"hidden_act": "gelu_pytorch_tanh"}


def _of_gemma2(header: GgufHeader, config: JsonObject) -> JsonObject:
    """A Gemma 2's keys, with the values that llama.cpp has for it."""
    return {
        "hidden_act": None,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": _query_scalar(config, "gemma2"),
        "attn_logit_softcapping": _number(
            header, "gemma2.attn_logit_softcapping", _GEMMA2_SCORE_CAP
        ),
        "final_logit_softcapping": _number(
            header, "gemma2.final_logit_softcapping", _GEMMA2_LOGIT_CAP
        ),
        "sliding_window": _count(header, "gemma2.attention.sliding_window", _GEMMA2_WINDOW),
        **_pattern(header, "gemma2", config, 2),
    }


def _of_gemma3(header: GgufHeader, config: JsonObject) -> JsonObject:
    """A Gemma 3's keys, with the values that llama.cpp has for it."""
    return {
        "model_type": "gemma3_text",
        "hidden_act": None,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": _query_scalar(config, "gemma3"),
        "rope_local_base_freq": _number(header, "gemma3.rope.freq_base_swa", 10000.0),
        "sliding_window": _count(header, "gemma3.attention.sliding_window"),
        **_pattern(header, "gemma3", config, 6),
    }


def _of_olmo2(header: GgufHeader, config: JsonObject) -> JsonObject:
    """An OLMo 2's keys. With a window it is an OLMo 3, whose scaling is that of global layers."""
    if not header.metadata.get("olmo2.attention.sliding_window"):
        return {}
    base = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    scaling = config["rope_scaling"]
    assert scaling is None or isinstance(scaling, dict)
    return {
        "model_type": "olmo3",
        "architectures": ["Olmo3ForCausalLM"],
        "rope_scaling": None,
        "rope_parameters": {
            "sliding_attention": dict(base),
            "full_attention": {**base, **(scaling or {})},
        },
        "sliding_window": _count(header, "olmo2.attention.sliding_window"),
        **_pattern(header, "olmo2", config, 4),
    }


def _of_exaone4(header: GgufHeader, config: JsonObject) -> JsonObject:
    """An EXAONE 4's keys; llama.cpp gives windows to the largest one only."""
    layers = config["num_hidden_layers"]
    if layers != _WINDOWED_LAYERS_OF_EXAONE:
        assert isinstance(layers, int)
        kinds: list[JsonValue] = ["full_attention"] * layers
        return {"sliding_window": None, "layer_types": kinds}
    return {
        "sliding_window": _count(header, "exaone4.attention.sliding_window", 4096),
        **_pattern(header, "exaone4", config, 4),
    }


_DIFFERENCES: dict[str, Callable[[GgufHeader, JsonObject], JsonObject]] = {
    "gemma": _of_gemma,
    "gemma2": _of_gemma2,
    "gemma3": _of_gemma3,
    "olmo2": _of_olmo2,
    "exaone4": _of_exaone4,
}


def _query_scalar(config: JsonObject, arch: str) -> int:
    """Of the scores of a Gemma: the head's size, but for the 27B model."""
    heads, width, size = (config[key] for key in ("num_attention_heads", "hidden_size", "head_dim"))
    assert isinstance(heads, int)
    assert isinstance(width, int)
    assert isinstance(size, int)
    return width // heads if config["num_hidden_layers"] == _LAYERS_OF_27B[arch] else size


def _pattern(header: GgufHeader, arch: str, config: JsonObject, period: int) -> JsonObject:
    """Which layers have windows: every one but each n-th, or as a list says."""
    value = header.metadata.get(f"{arch}.attention.sliding_window_pattern", period)
    kinds = ("full_attention", "sliding_attention")
    if isinstance(value, list):
        return {"layer_types": [kinds[bool(windowed)] for windowed in value]}
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    if type(value) is not int or value < 1:
        raise EdgespecError(
            f"{header.path}: {arch}.attention.sliding_window_pattern is {shortened(value)}"
        )
    return {"layer_types": [kinds[layer % value != 0] for layer in range(1, layers + 1)]}


def _refuse_unknown(header: GgufHeader, arch: str) -> None:
    prefix = f"{arch}."
    keys = {key.removeprefix(prefix) for key in header.metadata if key.startswith(prefix)}
    neutral = {key for key in _NEUTRAL if header.metadata.get(prefix + key) == _NEUTRAL[key]}
    unknown = sorted(keys - _KNOWN - neutral - _FURTHER.get(arch, set()))
    if unknown:
        value = header.metadata[prefix + unknown[0]]
        raise EdgespecError(
            f"{header.path}: {shortened(prefix + unknown[0])} = {shortened(value)} is not known, "
            "and it may change what the model computes; take the model's safetensors"
        )
    if header.metadata.get(f"{prefix}expert_count"):
        raise EdgespecError(f"{header.path}: mixtures of experts are not supported")
    if header.metadata.get(f"{prefix}attention.causal") is False:
        raise EdgespecError(f"{header.path}: attention is not causal: the model generates no text")


def _heads(header: GgufHeader, arch: str, heads: int, width: int) -> dict[str, int]:
    key = f"{arch}.attention.key_length"
    size = _count(header, key) if key in header.metadata else width // heads
    for key in (*_SIZES, *_SIZES_OF_WINDOWS):
        other = header.metadata.get(f"{arch}.{key}", size)
        if other != size:
            raise EdgespecError(
                f"{header.path}: {arch}.{key} is {shortened(other)}, not the head's {size}"
            )
    kv_key = f"{arch}.attention.head_count_kv"
    kv_heads = _count(header, kv_key) if kv_key in header.metadata else heads
    return {"head_dim": size, "num_key_value_heads": kv_heads}


def _has_bias(header: GgufHeader, parts: tuple[str, ...]) -> bool:
    biased = [part for part in parts if f"blk.0.attn_{part}.bias" in header.tensors]
    if biased and len(biased) < len(parts):
        raise EdgespecError(
            f"{header.path}: only {', '.join(biased)} of the attention projections "
            "have a bias: not supported"
        )
    return bool(biased)


def _vocab_size(header: GgufHeader) -> int:
    if "token_embd.weight" not in header.tensors:
        raise EdgespecError(f"{header.path}: has no token_embd.weight: is it a vocabulary only?")
    return header.tensors["token_embd.weight"].shape[0]


def _count(header: GgufHeader, key: str, default: int | None = None) -> int:
    value = _required(header, key) if default is None else header.metadata.get(key, default)
    if not isinstance(value, int) or value < 1:
        shown = "a list, one for each layer" if isinstance(value, list) else shortened(value)
        raise EdgespecError(f"{header.path}: {key} is {shown}; only one number ≥ 1 is supported")
    return value


def _number(header: GgufHeader, key: str, default: float | None = None) -> float:
    """The shortest decimal of a float32: 1e-05, where the file has 9.99999975e-06."""
    value = _required(header, key) if default is None else header.metadata.get(key, default)
    if not isinstance(value, int | float):
        raise EdgespecError(f"{header.path}: {key} is {shortened(value)}, not a number")
    return float(str(np.float32(value)))


def _required(header: GgufHeader, key: str) -> JsonValue:
    if key not in header.metadata:
        raise EdgespecError(f"{header.path}: lacks {key}: convert the model again")
    return header.metadata[key]
