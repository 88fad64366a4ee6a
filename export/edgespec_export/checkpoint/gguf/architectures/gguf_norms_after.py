"""OLMo 2 and 3 and EXAONE 4, whose norms come after their blocks."""

from __future__ import annotations

from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    WINDOWS,
    decoder,
    decoder_config,
    layer_types,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, number
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["EXAONE4", "NORMS_ON_BOTH_SIDES", "OLMO2"]

NORMS_ON_BOTH_SIDES = {
    **LAYER,
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_WINDOWED_LAYERS_OF_EXAONE = 64  # smaller ones have no windows


def _olmo2(header: GgufHeader) -> JsonObject:
    """With a window it is an OLMo 3, whose scaling is that of global layers."""
    config = decoder_config(header, "olmo2", "Olmo2ForCausalLM")
    if not header.metadata.get("olmo2.attention.sliding_window"):
        return config
    base: JsonObject = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    windowed = number(header, "olmo2.rope.freq_base_swa", number(header, "olmo2.rope.freq_base"))
    scaling = config["rope_scaling"]
    assert scaling is None or isinstance(scaling, dict)
    return {
        **config,
        "model_type": "olmo3",
        "architectures": ["Olmo3ForCausalLM"],
        "rope_scaling": None,
        "rope_parameters": {
            "sliding_attention": {**base, "rope_theta": windowed},
            "full_attention": {**base, **(scaling or {})},
        },
        "sliding_window": count(header, "olmo2.attention.sliding_window"),
        **layer_types(header, "olmo2", stated(config, "num_hidden_layers"), 4),
    }


def _exaone4(header: GgufHeader) -> JsonObject:
    """llama.cpp gives windows to the largest one only."""
    config = decoder_config(header, "exaone4", "Exaone4ForCausalLM")
    layers = stated(config, "num_hidden_layers")
    if layers != _WINDOWED_LAYERS_OF_EXAONE:
        kinds: list[JsonValue] = ["full_attention"] * layers
        return {**config, "sliding_window": None, "layer_types": kinds}
    return {
        **config,
        "sliding_window": count(header, "exaone4.attention.sliding_window", 4096),
        **layer_types(header, "exaone4", layers, 4),
    }


OLMO2 = decoder(
    "olmo2",
    _olmo2,
    "olmo2",
    "olmo3",
    layer=NORMS_ON_BOTH_SIDES,
    keys=WINDOWS | {"rope.freq_base_swa", "rope.scaling.attn_factor"},
)
EXAONE4 = decoder("exaone4", _exaone4, "exaone4", layer=NORMS_ON_BOTH_SIDES, keys=WINDOWS)
