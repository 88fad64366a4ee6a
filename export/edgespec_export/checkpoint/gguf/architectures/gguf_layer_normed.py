"""Decoders with layer norms: StableLM 2, Phi-1 to Phi-2, GPT-NeoX, BLOOM, GPT-2.

The converter stores the queries of all heads before the keys and the values, where GPT-NeoX and
BLOOM have those of each head together, and the norms of StableLM's heads as one matrix. GPT-2's
checkpoints have transposed matrices (`Conv1D`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgespec_export.checkpoint.gguf.architectures.architecture import EXPERT, Architecture
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    OUTSIDE,
    decoder,
    decoder_config,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, has_bias, number, vocab_size
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["BLOOM", "GPT2", "GPT_NEOX", "PHI2", "STABLELM"]

_EPSILON, _PARALLEL = "layer_norm_epsilon", "use_parallel_residual"
_QKV = ("attn_q", "attn_k", "attn_v")
_KEYS = frozenset({f"attention.{_EPSILON}", _PARALLEL})
_TOGETHER = "query_key_value"


def _layer_normed(header: GgufHeader, arch: str, hugging_face: str) -> JsonObject:
    """The keys of a decoder that rotates a part of each head."""
    config = decoder_config(header, arch, hugging_face, partial=True, biased=_QKV, epsilon=_EPSILON)
    size = stated(config, "head_dim")
    return {
        **{key: value for key, value in config.items() if key not in ("rms_norm_eps", "head_dim")},
        "layer_norm_eps": config["rms_norm_eps"],
        "partial_rotary_factor": count(header, f"{arch}.rope.dimension_count", size) / size,
    }


def _stablelm(header: GgufHeader) -> JsonObject:
    """Files say that all are parallel; one without a second norm is."""
    config = _layer_normed(header, "stablelm", "StableLmForCausalLM")
    return {
        **config,
        "use_qkv_bias": config["attention_bias"],
        "qk_layernorm": "blk.0.attn_q_norm.weight" in header.tensors,
        "use_parallel_residual": "blk.0.ffn_norm.weight" not in header.tensors,
    }


def _phi2(header: GgufHeader) -> JsonObject:
    config = _layer_normed(header, "phi2", "PhiForCausalLM")
    return {**config, "model_type": "phi", "hidden_act": "gelu_new"}


def _gpt_neox(header: GgufHeader) -> JsonObject:
    config = _layer_normed(header, "gptneox", "GPTNeoXForCausalLM")
    return {
        **config,
        "model_type": "gpt_neox",
        "hidden_act": "gelu",
        "attention_bias": has_bias(header, ("attn_qkv", "attn_output")),
        "use_parallel_residual": header.metadata.get(f"gptneox.{_PARALLEL}", True),
    }


def _bloom(header: GgufHeader) -> JsonObject:
    return {
        "model_type": "bloom",
        "architectures": ["BloomForCausalLM"],
        "hidden_size": count(header, "bloom.embedding_length"),
        "n_head": count(header, "bloom.attention.head_count"),
        "n_layer": count(header, "bloom.block_count"),
        "seq_length": count(header, "bloom.context_length"),
        "layer_norm_epsilon": number(header, f"bloom.attention.{_EPSILON}"),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "vocab_size": vocab_size(header),
    }


def _gpt2(header: GgufHeader) -> JsonObject:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "n_embd": count(header, "gpt2.embedding_length"),
        "n_head": count(header, "gpt2.attention.head_count"),
        "n_inner": count(header, "gpt2.feed_forward_length"),
        "n_layer": count(header, "gpt2.block_count"),
        "n_positions": count(header, "gpt2.context_length"),
        "layer_norm_epsilon": number(header, "gpt2.attention.layer_norm_epsilon"),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": header.metadata.get("tokenizer.ggml.bos_token_id"),
        "vocab_size": vocab_size(header),
    }


class _QueriesApart:
    """A Phi whose file has queries, keys and values as one matrix, as the first files have."""

    def __init__(self, weights: Weights, config: JsonObject) -> None:
        self._weights = weights
        heads = stated(config, "num_attention_heads")
        size = stated(config, "hidden_size") // heads
        counts = (heads, *2 * [stated(config, "num_key_value_heads")])
        ends = np.cumsum([number * size for number in counts]).tolist()
        rows = dict(zip("qkv", map(slice, [0, *ends], ends), strict=False))
        self._apart = {
            name.replace(_FUSED, f"{part}_proj"): (name, rows[part])
            for name in weights.names()
            if _FUSED in name
            for part in rows
        }

    def names(self) -> list[str]:
        others = (name for name in self._weights.names() if _FUSED not in name)
        return sorted([*others, *self._apart])

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._apart:
            return self._weights.shape(name)
        stored, rows = self._apart[name]
        return (rows.stop - rows.start, *self._weights.shape(stored)[1:])

    def read(self, name: str) -> Tensor:
        if name not in self._apart:
            return self._weights.read(name)
        stored, rows = self._apart[name]
        return self._weights.read(stored)[rows]

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        if name not in self._apart:
            return read_rows(self._weights, name, start, stop)
        return self.read(name)[start:stop]


class _HeadsTogether:
    """The queries, keys and values of each head together, as a checkpoint has them."""

    def __init__(self, weights: Weights, config: JsonObject) -> None:
        self._weights = weights
        self.names, self.shape = weights.names, weights.shape
        key = "num_attention_heads" if "num_attention_heads" in config else "n_head"
        self._heads = stated(config, key)

    def read(self, name: str) -> Tensor:
        tensor = self._weights.read(name)
        if _TOGETHER not in name:
            return tensor
        heads = tensor.reshape(3, self._heads, -1, *tensor.shape[1:]).swapaxes(0, 1)
        return np.ascontiguousarray(heads).reshape(tensor.shape)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        return self.read(name)[start:stop]


_FUSED = "qkv_proj"
_NEOX_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_output": "attention.dense",
    "attn_qkv": f"attention.{_TOGETHER}",
    "ffn_down": "mlp.dense_4h_to_h",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
}
STABLELM = decoder(
    "stablelm",
    _stablelm,
    "stablelm",
    layer={
        **LAYER,
        "attn_q_norm": f"self_attn.q_layernorm.norms.{EXPERT}",
        "attn_k_norm": f"self_attn.k_layernorm.norms.{EXPERT}",
    },
    outside={**OUTSIDE, "output_norm.bias": "model.norm.bias"},
    keys=_KEYS,
)
PHI2 = decoder(
    "phi2",
    _phi2,
    "phi",
    layer={
        **LAYER,
        "attn_qkv": f"self_attn.{_FUSED}",
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    },
    outside={
        **{**OUTSIDE, "output.bias": "lm_head.bias"},
        "output_norm.weight": "model.final_layernorm.weight",
        "output_norm.bias": "model.final_layernorm.bias",
    },
    keys=_KEYS,
    restored=_QueriesApart,
)
GPT_NEOX = Architecture(
    name="gptneox",
    model_types=("gpt_neox",),
    config=_gpt_neox,
    stacks={"blk": "gpt_neox.layers.{}"},
    parts={"blk": _NEOX_LAYER},
    outside={
        "output.weight": "embed_out.weight",
        "output_norm.bias": "gpt_neox.final_layer_norm.bias",
        "output_norm.weight": "gpt_neox.final_layer_norm.weight",
        "token_embd.weight": "gpt_neox.embed_in.weight",
    },
    keys=_KEYS,
    restored=_HeadsTogether,
)
BLOOM = replace(
    GPT_NEOX,
    name="bloom",
    model_types=("bloom",),
    config=_bloom,
    stacks={"blk": "transformer.h.{}"},
    parts={
        "blk": {
            part: name.replace("attention.", "self_attention.", 1)
            for part, name in _NEOX_LAYER.items()
        }
    },
    outside={
        "output.weight": "lm_head.weight",
        "output_norm.bias": "transformer.ln_f.bias",
        "output_norm.weight": "transformer.ln_f.weight",
        "token_embd.weight": "transformer.word_embeddings.weight",
        "token_embd_norm.bias": "transformer.word_embeddings_layernorm.bias",
        "token_embd_norm.weight": "transformer.word_embeddings_layernorm.weight",
    },
    of_config=frozenset(),
)
GPT2 = Architecture(
    name="gpt2",
    model_types=("gpt2",),
    config=_gpt2,
    stacks={"blk": "transformer.h.{}"},
    parts={
        "blk": {
            "attn_norm": "ln_1",
            "attn_output": "attn.c_proj",
            "attn_qkv": "attn.c_attn",
            "ffn_down": "mlp.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
        }
    },
    outside={
        "output.weight": "lm_head.weight",
        "output_norm.bias": "transformer.ln_f.bias",
        "output_norm.weight": "transformer.ln_f.weight",
        "position_embd.weight": "transformer.wpe.weight",
        "token_embd.weight": "transformer.wte.weight",
    },
    keys=frozenset({"attention.layer_norm_epsilon"}),
    of_config=frozenset(),
    transposed=(".c_attn.weight", ".c_proj.weight", ".c_fc.weight"),
)
