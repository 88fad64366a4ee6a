"""Llama, Mistral, Qwen2, Qwen3 and the text model of Qwen3-VL.

llama.cpp applies RoPE to neighbouring pairs of a head, Hugging Face to its two halves. So the
converter reorders the rows of the query and key matrices of some architectures.
"""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    WINDOWS,
    decoder,
    decoder_config,
    layer_types,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["LLAMA", "QWEN2", "QWEN3", "QWEN3VL"]

_WINDOW, _PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"


def _llama(header: GgufHeader) -> JsonObject:
    """Mistral's files say llama; with a window they are of a Mistral, or, where a pattern says
    which layers have it, of a Ministral."""
    config = decoder_config(header, "llama", "LlamaForCausalLM")
    if not header.metadata.get(f"llama.{_WINDOW}"):
        return config
    window = count(header, f"llama.{_WINDOW}")
    if config["attention_bias"]:
        raise EdgespecError(
            f"{header.path}: llama.{_WINDOW} is {window}, and attention has biases: no model with "
            "both is supported"
        )
    kind = "Mistral"
    kinds: JsonObject = {}
    if f"llama.{_PATTERN}" in header.metadata:
        kind = "Ministral"
        kinds = layer_types(header, "llama", stated(config, "num_hidden_layers"), 1)
    return {
        **config,
        "model_type": kind.lower(),
        "architectures": [f"{kind}ForCausalLM"],
        "sliding_window": window,
        **kinds,
    }


def _qwen2(header: GgufHeader) -> JsonObject:
    """Queries, keys and values have biases, which the config does not mention."""
    config = decoder_config(header, "qwen2", "Qwen2ForCausalLM", biased=())
    return _with_windows(header, "qwen2", config)


def _qwen3(header: GgufHeader) -> JsonObject:
    return _with_windows(header, "qwen3", decoder_config(header, "qwen3", "Qwen3ForCausalLM"))


def _qwen3vl(header: GgufHeader) -> JsonObject:
    """A Qwen3; the file of the tower of pictures is another one."""
    config = decoder_config(header, "qwen3vl", "Qwen3VLForConditionalGeneration")
    return {**config, "model_type": "qwen3_vl_text"}


def _with_windows(header: GgufHeader, arch: str, config: JsonObject) -> JsonObject:
    if not header.metadata.get(f"{arch}.{_WINDOW}"):
        return config
    window = count(header, f"{arch}.{_WINDOW}")
    if window >= stated(config, "max_position_embeddings"):
        return config  # it hides nothing
    if f"{arch}.{_PATTERN}" not in header.metadata:
        raise EdgespecError(
            f"{header.path}: {arch}.{_WINDOW} is {shortened(window)}, and nothing says which "
            "layers have it; take the model's safetensors"
        )
    kinds = layer_types(header, arch, stated(config, "num_hidden_layers"), 1)
    return {**config, "use_sliding_window": True, "sliding_window": window, **kinds}


LLAMA = decoder("llama", _llama, "llama", "mistral", reorders_heads=True, keys=WINDOWS)
QWEN2 = decoder("qwen2", _qwen2, "qwen2", keys=WINDOWS)
QWEN3 = decoder("qwen3", _qwen3, "qwen3", keys=WINDOWS)
QWEN3VL = decoder(
    "qwen3vl",
    _qwen3vl,
    "qwen3_vl_text",
    keys=frozenset({"rope.dimension_sections", "n_deepstack_layers"}),
)
