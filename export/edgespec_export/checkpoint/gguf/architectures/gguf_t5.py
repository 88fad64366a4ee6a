"""T5 and its kind: an encoder and a decoder, with tables of distances in the first layers, or in
all of a UMT5's.

Files state neither the activation nor the largest distance: llama.cpp has one for each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader, GgufTensor
from edgespec_export.checkpoint.gguf.gguf_values import count, number, vocab_size
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["T5"]

_LARGEST_DISTANCE = 128
_SELF, _CROSS, _TABLE = "SelfAttention", "EncDecAttention", "relative_attention_bias"


def _t5(header: GgufHeader) -> JsonObject:
    layers = count(header, "t5.block_count")
    size = count(header, "t5.attention.key_length")
    has_all_tables = layers > 1 and "enc.blk.1.attn_rel_b.weight" in header.tensors
    kind = "umt5" if has_all_tables else "t5"
    return {
        "model_type": kind,
        "architectures": [f"{kind.upper()}ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "d_model": count(header, "t5.embedding_length"),
        "d_ff": count(header, "t5.feed_forward_length"),
        "d_kv": size,
        "num_heads": count(header, "t5.attention.head_count"),
        "num_layers": layers,
        "num_decoder_layers": count(header, "t5.decoder_block_count", layers),
        "n_positions": count(header, "t5.context_length"),
        "feed_forward_proj": "gated-gelu" if _is_gated(header) else "relu",
        "layer_norm_epsilon": number(header, "t5.attention.layer_norm_rms_epsilon"),
        "relative_attention_num_buckets": count(header, "t5.attention.relative_buckets_count"),
        "relative_attention_max_distance": _LARGEST_DISTANCE,
        "decoder_start_token_id": header.metadata.get("t5.decoder_start_token_id", 0),
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id", 0),
        "tie_word_embeddings": _is_tied(header),
        "vocab_size": vocab_size(header),
    }


def _is_gated(header: GgufHeader) -> bool:
    return "enc.blk.0.ffn_gate.weight" in header.tensors


def _is_tied(header: GgufHeader) -> bool:
    """Whether the head is the embedding: logits are then scaled.

    Version 1.0 has a tied head and no gate, and some of its files repeat the embedding. Later ones
    have a gate and a head of their own.

    Raises:
        EdgespecError: the file does not tell.
    """
    head, table = (header.tensors.get(f"{name}.weight") for name in ("output", "token_embd"))
    if _is_gated(header):
        if head is None:
            raise EdgespecError(
                f"{header.path}: a T5 with a gate and without output.weight: its logits may be "
                "scaled or not, which the file does not say; take the model's safetensors"
            )
        return False
    if head is None:
        return True
    if table is None or head.kind != table.kind:
        raise EdgespecError(
            f"{header.path}: a T5 without a gate has an output.weight, quantized otherwise than "
            "its embedding, so that it may be tied or not; take the model's safetensors"
        )
    return np.array_equal(_bytes(head), _bytes(table))


def _bytes(tensor: GgufTensor) -> npt.NDArray[np.uint8]:
    return np.fromfile(tensor.file, np.uint8, tensor.bytes, offset=tensor.offset)


def _attention(theirs: str, at: int, name: str) -> dict[str, str]:
    return {f"{theirs}_{part}": f"layer.{at}.{name}.{part}" for part in "qkvo"} | {
        f"{theirs}_norm": f"layer.{at}.layer_norm",
        f"{theirs}_rel_b": f"layer.{at}.{name}.{_TABLE}",
    }


def _feed_forward(at: int, *, gated: bool) -> dict[str, str]:
    name = f"layer.{at}.DenseReluDense"
    return {
        "ffn_norm": f"layer.{at}.layer_norm",
        "ffn_gate": f"{name}.wi_0",
        "ffn_up": f"{name}.wi_1" if gated else f"{name}.wi",
        "ffn_down": f"{name}.wo",
    }


def _parts(*, gated: bool) -> dict[str, dict[str, str]]:
    return {
        "enc.blk": {**_attention("attn", 0, _SELF), **_feed_forward(1, gated=gated)},
        "dec.blk": {
            **_attention("attn", 0, _SELF),
            **_attention("cross_attn", 1, _CROSS),
            **_feed_forward(2, gated=gated),
        },
    }


def _with_or_without_gate(header: GgufHeader) -> Architecture:
    return T5 if _is_gated(header) else replace(T5, parts=_parts(gated=False))


T5 = Architecture(
    name="t5",
    model_types=("t5", "mt5", "umt5"),
    config=_t5,
    stacks={"enc.blk": "encoder.block.{}", "dec.blk": "decoder.block.{}"},
    parts=_parts(gated=True),
    outside={
        "token_embd.weight": "shared.weight",
        "output.weight": "lm_head.weight",
        "enc.output_norm.weight": "encoder.final_layer_norm.weight",
        "dec.output_norm.weight": "decoder.final_layer_norm.weight",
    },
    keys=frozenset(
        {"attention.layer_norm_epsilon", "attention.relative_buckets_count"}
        | {"decoder_block_count", "decoder_start_token_id"}
    ),
    of_config=frozenset(),
    variant=_with_or_without_gate,
)
