"""GPT-2, whose checkpoints have transposed matrices (`Conv1D`)."""

from __future__ import annotations

from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_values import count, number, vocab_size
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["GPT2"]


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
