"""Random Whispers as Hugging Face and CTranslate2 write them, small enough for a test.

The window is 2 s instead of 30 s; timestamps and the rules on tokens are those of large ones.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SOURCE = 100  # positions of the encoder: 2 s
LANGUAGES = ["en", "de", "fr"]
SPECIAL = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    *(f"<|{code}|>" for code in LANGUAGES),
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nocaptions|>",
    "<|notimestamps|>",
]


def whisper_tokenizer(*, timestamps: bool = True, more: int = 0) -> Tokenizer:
    """256 bytes, `more` words, special tokens, then timestamps unless these are left out."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, *(f"Ġword{index}" for index in range(more))]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    if timestamps:
        names = [f"<|{step / 50:.2f}|>" for step in range(SOURCE + 1)]
        tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names])
    return tokenizer


def write_whisper(
    folder: Path,
    *,
    seed: int = 0,
    noise: float = 0.0,
    more: int = 0,
    alignment_heads: object = None,
    **changes: object,
) -> Path:
    """A Whisper whose text depends on the sound and on what was said before.

    Args:
        noise: added to the weights, in standard deviations: a draft of the same seed.
        more: tokens of the vocabulary that another checkpoint lacks.
        alignment_heads: of the generation config; it has none if None.
    """
    import torch
    import transformers

    tokenizer = whisper_tokenizer(timestamps=False, more=more)
    size = tokenizer.get_vocab_size() + SOURCE + 1
    end, start = (tokenizer.token_to_id(name) for name in SPECIAL[:2])
    settings = {
        "vocab_size": size,
        "num_mel_bins": 12,
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_layers": 3,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 44,
        "decoder_ffn_dim": 40,
        "max_source_positions": SOURCE,
        "max_target_positions": 60,
        "init_std": 0.3,
        "decoder_start_token_id": start,
        "pad_token_id": end,
        "bos_token_id": end,
        "eos_token_id": end,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
        **changes,
    }
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**settings))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:  # biases and norms that do something
                weight += 0.2 * torch.randn(weight.shape)
        # Before a tied head, weights around 1 would repeat what was read.
        last = model.model.decoder.layer_norm.weight
        last.copy_(torch.randn(last.shape))
        for name, weight in model.named_parameters():
            if noise and "encoder.embed_positions" not in name:
                weight += noise * weight.std() * torch.randn(weight.shape)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    rules = {
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "pad_token_id": end,
        "bos_token_id": end,
        "is_multilingual": True,
        "suppress_tokens": [1, 2, 40],
        "begin_suppress_tokens": [220, end],
    }
    if alignment_heads is not None:
        rules["alignment_heads"] = alignment_heads
    (folder / "generation_config.json").write_text(json.dumps(rules))
    return folder


def write_ctranslate2(source: Path, folder: Path, dtype: str = "float32") -> Path:
    """The same model as `source` in a folder of CTranslate2's.

    Args:
        dtype: of the weights: float32, float16 or int8.
    """
    config = json.loads((source / "config.json").read_text())
    arrays = _stored(load_file(source / "model.safetensors"), config)
    for name, value in [*arrays.items()]:
        if dtype == "float16":
            arrays[name] = value.astype(np.float16)
        elif dtype == "int8" and name.endswith("weight") and "conv" not in name and value.ndim == 2:
            scale = 127 / np.maximum(np.abs(value).max(axis=1), 1e-6)
            arrays[name] = np.rint(value * scale[:, None]).astype(np.int8)
            arrays[f"{name}_scale"] = scale.astype(np.float32)
    for stack in ("encoder", "decoder"):
        arrays[f"{stack}/num_heads"] = np.array(config[f"{stack}_attention_heads"], np.int16)
        arrays[f"{stack}/activation"] = np.array(3, np.int8)
        arrays[f"{stack}/pre_norm"] = np.array(1, np.int8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(_model_bin(arrays))
    rules = json.loads((source / "generation_config.json").read_text())
    listed = {
        "suppress_ids": rules["suppress_tokens"],
        "suppress_ids_begin": rules["begin_suppress_tokens"],
        "lang_ids": [258, 259, 260],
        "alignment_heads": rules.get("alignment_heads"),
    }
    (folder / "config.json").write_text(json.dumps(listed))
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    return folder


def _stored(tensors: dict[str, np.ndarray], config: dict[str, object]) -> dict[str, np.ndarray]:
    """The tensors under CTranslate2's names, projections of one input as one matrix."""
    width = config["d_model"]
    arrays = {}

    def linear(to: str, *names: str) -> None:
        weights = [tensors[f"model.{name}.weight"] for name in names]
        biases = [tensors.get(f"model.{name}.bias", np.zeros(width, np.float32)) for name in names]
        arrays[f"{to}/weight"], arrays[f"{to}/bias"] = map(np.concatenate, (weights, biases))

    def norm(to: str, name: str) -> None:
        arrays[f"{to}/layer_norm/gamma"] = tensors[f"model.{name}.weight"]
        arrays[f"{to}/layer_norm/beta"] = tensors[f"model.{name}.bias"]

    for stack in ("encoder", "decoder"):
        positions = tensors[f"model.{stack}.embed_positions.weight"]
        arrays[f"{stack}/position_encodings/encodings"] = positions
        norm(stack, f"{stack}.layer_norm")
        for layer in range(config[f"{stack}_layers"]):
            to, at = f"{stack}/layer_{layer}", f"{stack}.layers.{layer}"
            attention = f"{at}.self_attn"
            linear(f"{to}/self_attention/linear_0", *(f"{attention}.{x}_proj" for x in "qkv"))
            linear(f"{to}/self_attention/linear_1", f"{attention}.out_proj")
            norm(f"{to}/self_attention", f"{attention}_layer_norm")
            linear(f"{to}/ffn/linear_0", f"{at}.fc1")
            linear(f"{to}/ffn/linear_1", f"{at}.fc2")
            norm(f"{to}/ffn", f"{at}.final_layer_norm")
            if stack == "decoder":
                attention = f"{at}.encoder_attn"
                linear(f"{to}/attention/linear_0", f"{attention}.q_proj")
                linear(f"{to}/attention/linear_1", *(f"{attention}.{x}_proj" for x in "kv"))
                linear(f"{to}/attention/linear_2", f"{attention}.out_proj")
                norm(f"{to}/attention", f"{attention}_layer_norm")
    arrays["decoder/embeddings/weight"] = tensors["model.decoder.embed_tokens.weight"]
    for conv in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            arrays[f"encoder/{conv}/{kind}"] = tensors[f"model.encoder.{conv}.{kind}"]
    return arrays


def _model_bin(arrays: dict[str, np.ndarray]) -> bytes:
    kinds = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    parts = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<II", 3, len(arrays))]
    for name, value in arrays.items():
        parts += [text(name), struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)]
        parts += [struct.pack("<BI", kinds[value.dtype.name], value.nbytes), value.tobytes()]
    parts += [struct.pack("<I", 1), text("decoder/projection/weight")]
    parts.append(text("decoder/embeddings/weight"))
    return b"".join(parts)
