"""Everything an export reads from a checkpoint, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from tokenizers import Tokenizer

from edgespec.artifact.chat_format import ChatFormat
from edgespec.artifact.manifest import VOCABULARY
from edgespec.errors import EdgespecError, shortened
from edgespec.tools.jinja_template import ChatTemplate
from edgespec_export.checkpoint.chat_template import chat_format, folder_chat, folder_template
from edgespec_export.checkpoint.ctranslate2.ctranslate2_whisper import (
    MODEL_BIN,
    CTranslate2Whisper,
)
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue, read_json_object
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.speech_tokens import END, START, with_timestamps
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.checkpoint.torch_file import TorchBin
from edgespec_export.checkpoint.weights import Weights

__all__ = ["Checkpoint", "open_checkpoint", "open_weights"]

_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
WINDOW_POSITIONS = 1500  # of a Whisper: a window of 30 s in steps of 20 ms
_TORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Config keys that count layers, by the names of all families.
_LAYER_COUNTS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "n_layer")


@dataclass(frozen=True)
class Checkpoint:
    """A model as it was published.

    Attributes:
        config: its Hugging Face config (of a GGUF file: the config of the same model).
        weights: its tensors, read one at a time.
        tokenizer: without truncation and padding.
        chat: the texts around messages; None for a model without a chat format.
        template: its chat template, if that knows tools.
        eos_token_ids: tokens that end a text, at least one.
        label: the checkpoint's name in messages.
        vocabulary: the file that lists the tokens of a draft with a reduced vocabulary, else None.
        generation: its settings for generating text, as in a `generation_config.json`.
    """

    config: JsonObject
    weights: Weights
    tokenizer: Tokenizer
    chat: ChatFormat | None
    eos_token_ids: tuple[int, ...]
    label: str
    vocabulary: Path | None = None
    generation: JsonObject = field(default_factory=dict)
    template: ChatTemplate | None = None


def open_checkpoint(source: Source) -> Checkpoint:
    """Opens a checkpoint folder, one of CTranslate2's, or a GGUF file. Weights stay on disk.

    Raises:
        EdgespecError: something is missing or corrupt, or of an unknown kind.
    """
    if source.path.is_file():
        checkpoint = _gguf(source)
    elif (source.path / MODEL_BIN).is_file():
        checkpoint = _ctranslate2(source)
    else:
        checkpoint = _folder(source)
    _check_layer_counts(checkpoint)
    return checkpoint


def open_weights(folder: Path) -> Weights:
    """The weights in a checkpoint folder; safetensors if there are any, else PyTorch's.

    Raises:
        EdgespecError: there are none, or their files are incomplete or corrupt.
    """
    for name in _SAFETENSORS:
        if (folder / name).is_file():
            return Safetensors(folder / name)
    for name in _TORCH:
        if (folder / name).is_file():
            return TorchBin(folder / name)
    raise EdgespecError(f"{folder}: has no weights; looked for {', '.join(_SAFETENSORS + _TORCH)}")


def _check_layer_counts(checkpoint: Checkpoint) -> None:
    """Refuses more layers than tensors, before any loop over the layers."""
    tensors = len(checkpoint.weights.names())
    for key in _LAYER_COUNTS:
        count = checkpoint.config.get(key)
        if isinstance(count, int) and count > tensors:
            raise EdgespecError(
                f"{checkpoint.label}: config.json says {key} = {shortened(count)}, and the "
                f"checkpoint has {tensors} tensors in all; config.json belongs to another model"
            )


def _folder(source: Source) -> Checkpoint:
    folder = source.path
    if not (folder / "config.json").is_file():
        raise EdgespecError(f"{folder}: is not a checkpoint: it has no config.json")
    config = read_json_object(folder / "config.json")
    generation_file = folder / "generation_config.json"
    generation = read_json_object(generation_file) if generation_file.is_file() else {}
    vocabulary = folder / VOCABULARY
    return Checkpoint(
        config=_with_start_token(config, generation),
        weights=open_weights(folder),
        tokenizer=_with_timestamps(load_tokenizer(folder, config), config),
        chat=folder_chat(folder),
        eos_token_ids=_eos_token_ids(folder, generation, config),
        label=source.label,
        vocabulary=vocabulary if vocabulary.is_file() else None,
        generation=generation,
        template=_with_tools(folder_template(folder)),
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
        template=None
        if template is None
        else _with_tools(ChatTemplate(template, gguf.special_tokens)),
    )


def _with_tools(template: ChatTemplate | None) -> ChatTemplate | None:
    """The template, if it knows tools: without them, the texts around messages say it all."""
    return template if template is not None and template.shows_tools() else None


def _ctranslate2(source: Source) -> Checkpoint:
    """A Whisper of CTranslate2's: its config.json has only the rules on tokens."""
    folder = source.path
    weights = CTranslate2Whisper(folder / MODEL_BIN)
    rules = read_json_object(folder / "config.json")
    tokenizer = _with_timestamps(load_tokenizer(folder, weights.config), weights.config)
    end = tokenizer.token_to_id(END)
    start = tokenizer.token_to_id(START)
    if end is None or start is None:
        raise EdgespecError(f"{folder / 'tokenizer.json'}: is not a Whisper's, it has no {END}")
    return Checkpoint(
        config={**weights.config, "decoder_start_token_id": start},
        weights=weights,
        tokenizer=tokenizer,
        chat=None,
        eos_token_ids=(end,),
        label=source.label,
        generation={
            "suppress_tokens": rules.get("suppress_ids"),
            "begin_suppress_tokens": rules.get("suppress_ids_begin"),
        },
    )


def _with_timestamps(tokenizer: Tokenizer, config: JsonObject) -> Tokenizer:
    """A Whisper's tokenizer with its timestamps; any other as it is."""
    if config.get("model_type") != "whisper":
        return tokenizer
    positions = config.get("max_source_positions", WINDOW_POSITIONS)
    if type(positions) is not int or not 0 < positions <= 100 * WINDOW_POSITIONS:
        raise EdgespecError(f"max_source_positions is {shortened(positions)}")
    return with_timestamps(tokenizer, steps=positions)


def _with_start_token(config: JsonObject, generation: JsonObject) -> JsonObject:
    """The config with the decoder's start token of the generation config, if that has one."""
    start = generation.get("decoder_start_token_id")
    return config if start is None else {**config, "decoder_start_token_id": start}


def _eos_token_ids(where: Path, *configs: JsonObject) -> tuple[int, ...]:
    """The end tokens of the first config that names any."""
    for config in configs:
        value = config.get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        if value is not None and listed:
            ids = [token for token in listed if _is_token_id(token)]
            if len(ids) < len(listed):
                raise EdgespecError(
                    f"{where}: eos_token_id is {shortened(value)}, not a token id or a list of them"
                )
            return tuple(dict.fromkeys(ids))
    raise EdgespecError(f"{where}: neither config names an eos_token_id, so no text would end")


def _is_token_id(value: JsonValue) -> TypeGuard[int]:
    return type(value) is int and value >= 0
