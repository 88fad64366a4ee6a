"""Checkpoints small enough to write in a test, in the formats checkpoints come in."""

import json
import struct
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize
from tokenizers import pre_tokenizers

# The model in a GGUF file; it has fewer key heads than query heads.
HEADS, KV_HEADS, SIZE, HIDDEN, INNER, LAYERS = 4, 2, 16, 64, 96, 2
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "1 2", "12 3", "Ġ 1"]
TOKENS = [
    *ALPHABET,
    *(merge.replace(" ", "") for merge in MERGES),
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "[PAD268]",
]
NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5
TYPES = [NORMAL] * (len(TOKENS) - 5) + [CONTROL] * 3 + [USER, UNUSED]
ENDOFTEXT, IM_END = TOKENS.index("<|endoftext|>"), TOKENS.index("<|im_end|>")


def hugging_face_tensors(norms=False):
    generator = np.random.default_rng(0)

    def matrix(*shape):
        return generator.standard_normal(shape).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": matrix(len(TOKENS), HIDDEN),
        "model.norm.weight": matrix(HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            f"{prefix}input_layernorm.weight": matrix(HIDDEN),
            f"{prefix}post_attention_layernorm.weight": matrix(HIDDEN),
            f"{prefix}self_attn.q_proj.weight": matrix(HEADS * SIZE, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": matrix(KV_HEADS * SIZE, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": matrix(KV_HEADS * SIZE, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": matrix(HIDDEN, HEADS * SIZE),
            f"{prefix}mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            f"{prefix}mlp.up_proj.weight": matrix(INNER, HIDDEN),
            f"{prefix}mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
        if norms:
            tensors[f"{prefix}self_attn.q_norm.weight"] = matrix(SIZE)
    return tensors


def gguf_name(name: str) -> str:
    for old, new in (
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ):
        name = name.replace(old, new)
    return name


def permuted(rows, heads):
    """llama.cpp's converter: from two halves of a head to neighbouring pairs."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def metadata(arch="llama"):
    return {
        f"{arch}.context_length": 128,
        f"{arch}.embedding_length": HIDDEN,
        f"{arch}.block_count": LAYERS,
        f"{arch}.feed_forward_length": INNER,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KV_HEADS,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        f"{arch}.rope.dimension_count": SIZE,
        f"{arch}.vocab_size": len(TOKENS),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": TYPES,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": ENDOFTEXT,
        "tokenizer.ggml.bos_token_id": ENDOFTEXT,
    }


def add_value(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_gguf(path, tensors=None, changes=None, arch="llama", kinds=None, raw=None):
    """A GGUF file; `kinds`: ggml type by Hugging Face name; None in `changes` drops a key."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (metadata(arch) | (changes or {})).items():
        if value is not None:
            add_value(writer, key, value)
    for name, tensor in (tensors or hugging_face_tensors()).items():
        heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
        rows = permuted(tensor, heads) if heads and arch == "llama" else tensor
        kind = (kinds or {}).get(name, gguf.GGMLQuantizationType.F32)
        writer.add_tensor(gguf_name(name), quantize(rows, kind), raw_dtype=kind)
    for name, tensor in (raw or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# dtype name to safetensors code
CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}


def write_safetensors(path: Path, tensors, codes=CODES):
    header, body = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.tobytes()
        header[name] = {
            "dtype": codes[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
