"""A checkpoint in one GGUF file, as if it were a Hugging Face folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.generation_config import gguf_generation
from edgespec_export.checkpoint.gguf.architectures import Architecture, architecture_of
from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader, read_gguf_header
from edgespec_export.checkpoint.gguf.gguf_tokenizer import (
    check_vocabulary,
    control_tokens,
    gguf_tokenizer,
)
from edgespec_export.checkpoint.gguf.gguf_weights import GgufWeights
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue
from edgespec_export.checkpoint.tokenizer.tokenizers_file import read_tokenizer_json
from edgespec_export.checkpoint.weights import Weights

__all__ = ["GgufCheckpoint", "open_gguf"]

# Ends of a turn that chat templates write; the file itself names only one end of text.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
# A GGUF file's names of special tokens, and the names in a chat template.
_SPECIAL = {
    "bos": "bos_token",
    "eos": "eos_token",
    "padding": "pad_token",
    "unknown": "unk_token",
}


@dataclass(frozen=True)
class GgufCheckpoint:
    """The contents of a GGUF file.

    Attributes:
        config: the Hugging Face config of the same model; `eos_token_id` is a list.
        weights: tensors by their Hugging Face names; `read` dequantizes.
        tokenizer: from the metadata, or from a `tokenizer.json` in the same folder.
        chat_template: the Jinja template for chats, if there is one.
        special_tokens: texts of special tokens, by their names in a chat template.
        generation: settings for generating text, as in a `generation_config.json`.
    """

    config: JsonObject
    weights: Weights
    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: dict[str, str]
    generation: JsonObject


def open_gguf(path: Path) -> GgufCheckpoint:
    """Reads a GGUF file's head; weights stay in the file until they are read.

    Raises:
        EdgespecError: the file is missing, cut off or corrupt, or holds an unknown architecture,
            rope scaling, tokenizer, tensor or key, by name.
    """
    header = read_gguf_header(path)
    architecture, config = architecture_of(header), gguf_config(header)
    template = header.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        template = None
    tokenizer = _tokenizer(header)
    config["eos_token_id"] = _eos_token_ids(header, template)
    stored = GgufWeights(header, architecture, _reordered_heads(architecture, config))
    restored = architecture.restored
    return GgufCheckpoint(
        config=config,
        weights=stored if restored is None else restored(stored, config),
        tokenizer=tokenizer,
        chat_template=template,
        special_tokens=_special_tokens(header, tokenizer),
        generation=gguf_generation(header.metadata),
    )


def _reordered_heads(architecture: Architecture, config: JsonObject) -> dict[str, int]:
    """Number of heads of each projection whose rows llama.cpp's converter reorders."""
    if not architecture.reorders_heads:
        return {}
    counts = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _tokenizer(header: GgufHeader) -> Tokenizer:
    tokenizer_file = header.path.parent / "tokenizer.json"
    if not tokenizer_file.is_file():
        return gguf_tokenizer(header)
    tokenizer = read_tokenizer_json(tokenizer_file)
    check_vocabulary(header, tokenizer, str(tokenizer_file))
    return tokenizer


def _special_tokens(header: GgufHeader, tokenizer: Tokenizer) -> dict[str, str]:
    ids = {
        name: header.metadata.get(f"tokenizer.ggml.{key}_token_id")
        for key, name in _SPECIAL.items()
    }
    texts = {
        name: tokenizer.id_to_token(index)
        for name, index in ids.items()
        if isinstance(index, int) and index >= 0
    }
    return {name: text for name, text in texts.items() if text is not None}


def _eos_token_ids(header: GgufHeader, template: str | None) -> list[JsonValue]:
    keys = [f"tokenizer.ggml.{end}_token_id" for end in ("eos", "eot")]
    named = [header.metadata[key] for key in keys if key in header.metadata]
    control = control_tokens(header)
    turns = [control[end] for end in _TURN_ENDS if end in control and end in (template or "")]
    ids = list(dict.fromkeys([*named, *turns]))
    if not ids:
        raise EdgespecError(f"{header.path}: names no token that ends a text: convert it again")
    return ids
