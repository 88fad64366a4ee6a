"""Phi-3 and Phi-4: projections are stored together, and positions may have two lists of factors."""

from __future__ import annotations

from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    decoder,
    decoder_config,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import FACTORS_OF_LONGROPE
from edgespec_export.checkpoint.gguf.gguf_values import count
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["PHI3"]

_WINDOW, _TRAINED = "phi3.attention.sliding_window", "phi3.rope.scaling.original_context_length"
# The first files do not state a window; of those with 4096 positions it is this.
_WINDOW_OF_4096 = 2047


def _phi3(header: GgufHeader) -> JsonObject:
    """llama.cpp ignores the window; transformers has it."""
    config = decoder_config(header, "phi3", "Phi3ForCausalLM", partial=True)
    positions = stated(config, "max_position_embeddings")
    window = header.metadata.get(_WINDOW, _WINDOW_OF_4096 if positions == 4096 else 0)
    size = stated(config, "head_dim")
    rotated = count(header, "phi3.rope.dimension_count", size)
    return {
        **{key: value for key, value in config.items() if key != "head_dim"},
        "partial_rotary_factor": rotated / size,
        "original_max_position_embeddings": count(header, _TRAINED, positions),
        "sliding_window": count(header, _WINDOW, _WINDOW_OF_4096) if window else None,
    }


PHI3 = decoder(
    "phi3",
    _phi3,
    "phi3",
    layer={**LAYER, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
    of_config=FACTORS_OF_LONGROPE,
    keys=frozenset({"attention.sliding_window", "rope.scaling.attn_factor"}),
)
