"""Hunyuan, dense: the file's rotary base is already raised by the config's "alpha"."""

from __future__ import annotations

from edgespec_export.checkpoint.gguf.architectures.decoder import LAYER, decoder, decoder_config
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["HUNYUAN_DENSE"]


def _hunyuan(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "hunyuan-dense", "HunYuanDenseV1ForCausalLM")
    return {**config, "model_type": "hunyuan_v1_dense"}


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
