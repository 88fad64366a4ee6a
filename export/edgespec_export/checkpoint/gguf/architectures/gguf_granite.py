"""Granite 3 and 4 (dense), whose multipliers are keys.

Files of a dense Granite 4 have keys of state-space layers, too, of which it has none.
"""

from __future__ import annotations

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    decoder,
    decoder_config,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import number
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["GRANITE", "GRANITE_HYBRID"]

_ROTATES = "rope.scaling.finetuned"  # llama.cpp reads it as this
_STATE_SPACE = {
    f"ssm.{name}"
    for name in ("conv_kernel", "group_count", "inner_size", "state_size", "time_step_rank")
}


def _granite(header: GgufHeader) -> JsonObject:
    return _multiplied(header, "granite")


def _granite_hybrid(header: GgufHeader) -> JsonObject:
    """A Granite 4, if all of its layers are attention.

    Raises:
        EdgespecError: some are not, or it has no rotary positions.
    """
    heads = header.metadata.get("granitehybrid.attention.head_count_kv")
    if isinstance(heads, list) and 0 in heads:
        raise EdgespecError(
            f"{header.path}: {heads.count(0)} of {len(heads)} layers are state-space layers, which "
            "are not supported"
        )
    return _multiplied(header, "granitehybrid")


def _multiplied(header: GgufHeader, arch: str) -> JsonObject:
    """A multiplier that is missing or 0 is none; that of scores is then the usual one.

    Raises:
        EdgespecError: the model has no rotary positions.
    """
    config = decoder_config(header, arch, "GraniteForCausalLM")
    if header.metadata.get(f"{arch}.{_ROTATES}") is False:
        raise EdgespecError(
            f"{header.path}: {arch}.{_ROTATES} is false: Granite files without rotary positions "
            "are not supported; take the model's safetensors"
        )
    usual = stated(config, "head_dim") ** -0.5
    return {
        **config,
        "model_type": "granite",
        "attention_multiplier": number(header, f"{arch}.attention.scale", 0.0) or usual,
        "embedding_multiplier": number(header, f"{arch}.embedding_scale", 0.0) or 1.0,
        "residual_multiplier": number(header, f"{arch}.residual_scale", 0.0) or 1.0,
        "logits_scaling": number(header, f"{arch}.logit_scale", 0.0) or 1.0,
    }


_KEYS = frozenset(
    {"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}
    | {"expert_shared_feed_forward_length"}  # the matrices themselves have it
    | _STATE_SPACE
)
GRANITE = decoder("granite", _granite, "granite", reorders_heads=True, keys=_KEYS)
GRANITE_HYBRID = decoder("granitehybrid", _granite_hybrid, reorders_heads=True, keys=_KEYS)
