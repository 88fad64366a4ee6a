"""Gemma 1 to 3: the converter adds 1 to the weights of norms.

llama.cpp knows scales and patterns that files do not state.
"""

from __future__ import annotations

from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    WINDOWS,
    decoder,
    decoder_config,
    layer_types,
    stated,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_norms_after import NORMS_ON_BOTH_SIDES
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, number
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["GEMMA", "GEMMA2", "GEMMA3"]

# Layers of the 27B models, whose scores have another scale. Files do not state it.
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
# What llama.cpp takes for a Gemma 2 whose file does not say.
_GEMMA2_SCORE_CAP, _GEMMA2_LOGIT_CAP, _GEMMA2_WINDOW = 50.0, 30.0, 4096
_TANH_GELU = "gelu_pytorch_tanh"


def _gemma(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "gemma", "GemmaForCausalLM")
    return {**config, "hidden_act": _TANH_GELU}


def _gemma2(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "gemma2", "Gemma2ForCausalLM")
    return {
        **config,
        "hidden_act": None,
        "hidden_activation": _TANH_GELU,
        "query_pre_attn_scalar": _query_scalar(config, "gemma2"),
        "attn_logit_softcapping": number(
            header, "gemma2.attn_logit_softcapping", _GEMMA2_SCORE_CAP
        ),
        "final_logit_softcapping": number(
            header, "gemma2.final_logit_softcapping", _GEMMA2_LOGIT_CAP
        ),
        "sliding_window": count(header, "gemma2.attention.sliding_window", _GEMMA2_WINDOW),
        **layer_types(header, "gemma2", stated(config, "num_hidden_layers"), 2),
    }


def _gemma3(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "gemma3", "Gemma3ForCausalLM")
    return {
        **config,
        "model_type": "gemma3_text",
        "hidden_act": None,
        "hidden_activation": _TANH_GELU,
        "query_pre_attn_scalar": _query_scalar(config, "gemma3"),
        "rope_local_base_freq": number(header, "gemma3.rope.freq_base_swa", 10000.0),
        "sliding_window": count(header, "gemma3.attention.sliding_window"),
        **layer_types(header, "gemma3", stated(config, "num_hidden_layers"), 6),
    }


def _query_scalar(config: JsonObject, arch: str) -> int:
    """Of the scores of a Gemma: the head's size, but for the 27B model."""
    if config["num_hidden_layers"] == _LAYERS_OF_27B[arch]:
        return stated(config, "hidden_size") // stated(config, "num_attention_heads")
    return stated(config, "head_dim")


GEMMA = decoder("gemma", _gemma, "gemma", layer=LAYER, norms_with_one=True)
GEMMA2 = decoder(
    "gemma2",
    _gemma2,
    "gemma2",
    layer=NORMS_ON_BOTH_SIDES,
    norms_with_one=True,
    keys=WINDOWS | {"attn_logit_softcapping", "final_logit_softcapping"},
)
# A Gemma 3's windowed layers may have heads and positions of their own.
GEMMA3 = decoder(
    "gemma3",
    _gemma3,
    "gemma3_text",
    layer=NORMS_ON_BOTH_SIDES,
    norms_with_one=True,
    keys=WINDOWS
    | {"attention.key_length_swa", "attention.value_length_swa"}
    | {"rope.dimension_count_swa", "rope.freq_base_swa"},
)
