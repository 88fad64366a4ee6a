"""Everything an export reads from a checkpoint, whatever its format."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokenizers import Tokenizer

from edgespec.artifact.chat_format import ChatFormat
from edgespec.artifact.languages import Languages
from edgespec.artifact.manifest import VOCABULARY
from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.adapter.adapter_folder import name_adapter, refuse_adapter
from edgespec_export.checkpoint.adapter.merged import merged
from edgespec_export.checkpoint.ctranslate2.ctranslate2_whisper import (
    MODEL_BIN,
    CTranslate2Whisper,
)
from edgespec_export.checkpoint.end_tokens import configured_ends, turn_end, within_vocabulary
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.quantized.dequantized import dequantized
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.speech_tokens import END, START, with_timestamps
from edgespec_export.checkpoint.template_texts import (
    chat_format,
    folder_template,
    special_tokens,
    usable_template,
)
from edgespec_export.checkpoint.text_part import text_part
from edgespec_export.checkpoint.tokenizer.language_settings import model_languages
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.checkpoint.torch_file import TorchBin
from edgespec_export.checkpoint.weights import Weights

__all__ = ["Checkpoint", "open_checkpoint", "open_weights"]

_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_log = logging.getLogger("edgespec")
WINDOW_POSITIONS = 1500  # of a Whisper: a window of 30 s in steps of 20 ms
_TORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Config keys that count layers, by the names of all families.
_LAYER_COUNTS = {
    *("num_hidden_layers", "num_layers", "num_decoder_layers", "n_layer"),
    *("num_experts", "num_local_experts"),
}


@dataclass(frozen=True)
class Checkpoint:
    """A model as it was published.

    Attributes:
        config: its Hugging Face config (of a GGUF file: the config of the same model).
        weights: its tensors, read one at a time.
        tokenizer: without truncation and padding.
        chat: the texts around messages; None for a model without a chat format.
        template: its chat template, if that writes a message.
        languages: of a translation model whose tokenizer is told them, else None.
        eos_token_ids: tokens that end a text; none if nothing in the checkpoint names one.
        label: the checkpoint's name in messages.
        vocabulary: the file that lists the tokens of a draft with a reduced vocabulary, else None.
        generation: its settings for generating text, as in a `generation_config.json`.
        refusal: why its weights cannot be read; None if they can.
        is_as_stored: whether they are those of its files, not dequantized, and without an adapter.
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
    languages: Languages | None = None
    refusal: EdgespecError | None = None
    is_as_stored: bool = True

    @property
    def float32_bytes(self) -> int:
        """Bytes of all tensors as float32."""
        return 4 * sum(math.prod(self.weights.shape(name)) for name in self.weights.names())


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
    if source.adapter is None or checkpoint.refusal is not None:
        return checkpoint
    return _with_adapter(checkpoint, source.adapter)


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
    """Refuses more layers or experts than tensors, before any loop over them."""
    tensors = len(checkpoint.weights.names())
    for key, count in _layer_counts(checkpoint.config):
        if count > tensors:
            raise EdgespecError(
                f"{checkpoint.label}: config.json says {key} = {shortened(count)}, and the "
                f"checkpoint has {tensors} tensors in all; config.json belongs to another model"
            )


def _layer_counts(config: JsonObject) -> Iterator[tuple[str, int]]:
    """The numbers of layers and of experts in a config, and in those of its parts."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _layer_counts(value)
        elif key in _LAYER_COUNTS and isinstance(value, int):
            yield key, value


def _folder(source: Source) -> Checkpoint:
    folder = source.path
    if not (folder / "config.json").is_file():
        refuse_adapter(folder, source.label)
        raise EdgespecError(f"{folder}: is not a checkpoint: it has no config.json")
    outer = read_json_object(folder / "config.json")
    generation_file = folder / "generation_config.json"
    generation = read_json_object(generation_file) if generation_file.is_file() else {}
    vocabulary = folder / VOCABULARY
    stored = _weights(folder, source.label)
    if source.adapter is None:
        name_adapter(folder, source.label)
    weights, refusal = _dequantized(folder, outer, stored, source.label)
    is_as_stored = weights is stored
    config, weights = text_part(outer, weights, source.label)
    config = _with_start_token(config, generation)
    tokenizer = _with_timestamps(load_tokenizer(folder, outer), config)
    languages = model_languages(folder, tokenizer, config, generation)
    generation = _with_target_language(generation, config, languages)
    template = usable_template(folder_template(folder))
    end = special_tokens(folder).get("eos_token")
    ends = [
        *configured_ends(folder, generation, outer, config),
        None if end is None else tokenizer.token_to_id(end),
        turn_end(template, tokenizer),
    ]
    return Checkpoint(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        chat=None if template is None else chat_format(template),
        eos_token_ids=_within(ends, config, source.label),
        label=source.label,
        vocabulary=vocabulary if vocabulary.is_file() else None,
        generation=generation,
        template=template,
        languages=languages,
        refusal=refusal,
        is_as_stored=is_as_stored,
    )


def _weights(folder: Path, label: str) -> Weights:
    """The weights of a folder, which may have an adapter beside or in place of them."""
    try:
        weights = open_weights(folder)
    except EdgespecError:
        refuse_adapter(folder, label)
        raise
    return weights


def _dequantized(
    folder: Path, config: JsonObject, weights: Weights, label: str
) -> tuple[Weights, EdgespecError | None]:
    """The weights as numbers, and why they cannot be read so, if they are quantized."""
    try:
        return dequantized(folder, config, weights, label), None
    except EdgespecError as error:  # said after an unknown family, which no other file would help
        return weights, error


def _with_adapter(checkpoint: Checkpoint, folder: Path) -> Checkpoint:
    """The checkpoint with an adapter merged into it, and with the chat template that it was trained
    on, if it has one."""
    weights = merged(folder, checkpoint.weights, checkpoint.label)
    checkpoint = replace(checkpoint, weights=weights, is_as_stored=False)
    template = usable_template(folder_template(folder))
    if template is None:
        return checkpoint
    _log.info("%s: with the chat template of the adapter", checkpoint.label)
    ends = [*checkpoint.eos_token_ids, turn_end(template, checkpoint.tokenizer)]
    return replace(
        checkpoint,
        chat=chat_format(template),
        template=template,
        eos_token_ids=_within(ends, checkpoint.config, checkpoint.label),
    )


def _within(ends: list[int | None], config: JsonObject, label: str) -> tuple[int, ...]:
    named = [end for end in ends if end is not None]
    return within_vocabulary(named, config.get("vocab_size"), label)


def _gguf(source: Source) -> Checkpoint:
    gguf = open_gguf(source.path)
    written = gguf.chat_template
    template = usable_template(
        None if written is None else ChatTemplate(written, gguf.special_tokens)
    )
    ends = [*configured_ends(source.path, gguf.config), turn_end(template, gguf.tokenizer)]
    return Checkpoint(
        config=gguf.config,
        weights=gguf.weights,
        tokenizer=gguf.tokenizer,
        chat=None if template is None else chat_format(template),
        eos_token_ids=_within(ends, gguf.config, source.label),
        label=source.label,
        generation=gguf.generation,
        template=template,
    )


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
            "alignment_heads": rules.get("alignment_heads"),
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


def _with_target_language(
    generation: JsonObject, config: JsonObject, languages: Languages | None
) -> JsonObject:
    """The generation config with the first token of a text in the target's language, unless the
    text starts with it, or a setting names another."""
    if languages is None or languages.target is None or languages.target_is_start:
        return generation
    named = (generation.get("forced_bos_token_id"), config.get("forced_bos_token_id"))
    if any(token is not None for token in named):
        return generation
    return {**generation, "forced_bos_token_id": languages.tokens[languages.target]}


def _with_start_token(config: JsonObject, generation: JsonObject) -> JsonObject:
    """The config with the decoder's start token of the generation config, if that has one."""
    start = generation.get("decoder_start_token_id")
    return config if start is None else {**config, "decoder_start_token_id": start}
