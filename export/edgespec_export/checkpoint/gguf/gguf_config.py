"""A GGUF file's metadata as the Hugging Face config of the same model."""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures import Architecture, architecture_of
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["gguf_config"]

# Keys that every architecture's config reads, or that change nothing. Any other key that the
# architecture does not name might change the model: it is refused.
_KNOWN = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
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
# Keys that name a part or a change, with the value that says that there is none.
_NEUTRAL: dict[str, JsonValue] = {
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.scale": 0.0,
    "attention.shared_kv_layers": 0,
    "attention.sliding_window": 0,
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

    Raises:
        EdgespecError: another architecture, or a missing or unknown key, by name.
    """
    architecture = architecture_of(header)
    _refuse_unknown(header, architecture)
    return architecture.config(header)


def _refuse_unknown(header: GgufHeader, architecture: Architecture) -> None:
    prefix = f"{architecture.name}."
    keys = {key.removeprefix(prefix) for key in header.metadata if key.startswith(prefix)}
    neutral = {key for key in _NEUTRAL if header.metadata.get(prefix + key) == _NEUTRAL[key]}
    unknown = sorted(keys - _KNOWN - neutral - architecture.keys)
    if unknown:
        value = header.metadata[prefix + unknown[0]]
        raise EdgespecError(
            f"{header.path}: {shortened(prefix + unknown[0])} = {shortened(value)} is not known, "
            "and it may change what the model computes; take the model's safetensors"
        )
    experts = header.metadata.get(f"{prefix}expert_count")
    if experts and "expert_count" not in architecture.keys:
        raise EdgespecError(f"{header.path}: mixtures of experts are not supported")
    if header.metadata.get(f"{prefix}attention.causal") is False:
        raise EdgespecError(f"{header.path}: attention is not causal: the model generates no text")
