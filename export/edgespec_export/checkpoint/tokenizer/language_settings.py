"""The languages of mBART-like tokenizers: the source's around a text, and all that a model has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, processors

from edgespec.artifact.languages import Languages
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue
from edgespec_export.checkpoint.tokenizer.tokenizer_class import tokenizer_class
from edgespec_export.checkpoint.tokenizer.tokenizer_settings import TokenizerSettings

__all__ = ["model_languages", "with_source_language"]

_CODE = re.compile(r"[a-z]{2,3}_([A-Z]{2}|[A-Z][a-z]{3})")  # "en_XX", "eng_Latn"

# The source's language where tokenizer_config.json names none.
DEFAULT_SOURCES = {
    "MBartTokenizer": "en_XX",
    "MBart50Tokenizer": "en_XX",
    "NllbTokenizer": "eng_Latn",
}


def with_source_language(tokenizer: Tokenizer, name: str, settings: TokenizerSettings) -> bool:
    """Sets the post-processor of a class of such tokenizers; false for other classes.

    Raises:
        EdgespecError: the language has no token.
    """
    if name not in DEFAULT_SOURCES:
        return False
    language = _source(settings, name)
    end = str(settings.named.get("eos_token") or "</s>")
    for token in (language, end):
        if tokenizer.token_to_id(token) is None:
            raise EdgespecError(
                f"{settings.path}: src_lang is {shortened(language)}, and the tokenizer has no "
                f"token {shortened(token)}"
            )
    last = _source_is_last(settings, name)
    before, after = ([], [end, language]) if last else ([language], [end])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", "$B", *after],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (language, end)],
    )
    return True


def model_languages(
    folder: Path, tokenizer: Tokenizer, config: JsonObject, generation: JsonObject
) -> Languages | None:
    """The languages of a checkpoint whose tokenizer is told them; None for another.

    The target's is the one that its settings begin a text with, else `tgt_lang`.

    Args:
        tokenizer: of the checkpoint.
        config, generation: its `config.json` and `generation_config.json`.
    """
    settings = TokenizerSettings.read(folder)
    name = tokenizer_class(settings, config, byte_level=False)
    if name not in DEFAULT_SOURCES:
        return None
    size = config.get("vocab_size")
    tokens = {
        token.content: index
        for index, token in sorted(tokenizer.get_added_tokens_decoder().items())
        if _CODE.fullmatch(token.content) and not (type(size) is int and index >= size)
    }
    source = _source(settings, name)
    if source not in tokens:
        return None
    codes = {index: code for code, index in tokens.items()}
    start = _setting("decoder_start_token_id", generation, config)
    first = _setting("forced_bos_token_id", generation, config)
    candidates = [codes.get(token) for token in (start, first) if token is not None]
    candidates.append(settings.text("tgt_lang"))
    named = [code for code in candidates if code is not None and code in tokens]
    return Languages(
        tokens=tokens,
        source=source,
        source_is_last=_source_is_last(settings, name),
        target=named[0] if named else None,
        target_is_start=start in codes,
    )


def _source(settings: TokenizerSettings, name: str) -> str:
    return settings.text("src_lang") or DEFAULT_SOURCES[name]


def _source_is_last(settings: TokenizerSettings, name: str) -> bool:
    legacy = name == "NllbTokenizer" and settings.flag("legacy_behaviour", False)
    return name == "MBartTokenizer" or legacy


def _setting(name: str, *files: Mapping[str, JsonValue]) -> int | None:
    """A token id from the first file that names it."""
    found = (file[name] for file in files if type(file.get(name)) is int)
    return next((value for value in found if isinstance(value, int)), None)
