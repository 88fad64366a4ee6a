"""Everything an export reads from a checkpoint, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgespec.artifact.chat_format import ChatFormat
from edgespec.artifact.manifest import VOCABULARY
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.chat_template import chat_format, folder_chat
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.json_file import read_json_object
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.tokenizers_file import load_tokenizer
from edgespec_export.checkpoint.weights import Weights, open_weights

__all__ = ["Checkpoint", "open_checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """A model as it was published.

    Attributes:
        config: its Hugging Face config (of a GGUF file: the config of the same model).
        weights: its tensors, read one at a time.
        tokenizer: without truncation and padding.
        chat: the texts around messages; None for models that do not chat.
        eos_token_ids: tokens that end a text, at least one.
        label: what was opened, for people.
        vocabulary: of a draft that has only some of its target's tokens: the file that says which.
        generation: its settings for generating text, as in a `generation_config.json`.
    """

    config: dict[str, Any]
    weights: Weights
    tokenizer: Tokenizer
    chat: ChatFormat | None
    eos_token_ids: tuple[int, ...]
    label: str
    vocabulary: Path | None = None
    generation: Mapping[str, Any] = field(default_factory=dict)


def open_checkpoint(source: Source) -> Checkpoint:
    """Open a checkpoint folder or a GGUF file. Weights stay on disk.

    Raises:
        EdgespecError: something is missing, corrupt, or of a kind that is not understood.
    """
    return _gguf(source) if source.path.is_file() else _folder(source)


def _folder(source: Source) -> Checkpoint:
    folder = source.path
    if not (folder / "config.json").is_file():
        raise EdgespecError(f"{folder}: is not a checkpoint: it has no config.json")
    config = read_json_object(folder / "config.json")
    generation_file = folder / "generation_config.json"
    generation = read_json_object(generation_file) if generation_file.is_file() else {}
    return Checkpoint(
        config=_with_start_token(config, generation),
        weights=open_weights(folder),
        tokenizer=load_tokenizer(folder, config),
        chat=folder_chat(folder),
        eos_token_ids=_eos_token_ids(folder, generation, config),
        label=source.label,
        vocabulary=folder / VOCABULARY if (folder / VOCABULARY).is_file() else None,
        generation=generation,
    )


def _gguf(source: Source) -> Checkpoint:
    gguf = open_gguf(source.path)
    template = gguf.chat_template
    return Checkpoint(
        config=gguf.config,
        weights=gguf.weights,
        tokenizer=gguf.tokenizer,
        chat=None if template is None else chat_format(template, gguf.special_tokens),
        eos_token_ids=_eos_token_ids(source.path, gguf.config),
        label=source.label,
        generation=gguf.generation,
    )


def _with_start_token(config: dict[str, Any], generation: dict[str, Any]) -> dict[str, Any]:
    """The generation config says first what an encoder-decoder's text starts with."""
    start = generation.get("decoder_start_token_id")
    return config if start is None else {**config, "decoder_start_token_id": start}


def _eos_token_ids(where: Path, *configs: dict[str, Any]) -> tuple[int, ...]:
    """From the first config that names any."""
    for config in configs:
        value = config.get("eos_token_id")
        ids: list[Any] = value if isinstance(value, list) else [value]
        if value is not None and ids:
            if not all(type(index) is int and index >= 0 for index in ids):
                raise EdgespecError(f"{where}: eos_token_id is {value!r}, not a token or a list")
            return tuple(dict.fromkeys(ids))
    raise EdgespecError(f"{where}: neither config names an eos_token_id, so no text would end")
