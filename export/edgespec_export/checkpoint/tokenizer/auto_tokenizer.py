"""A `tokenizer.json` with what the other files of its checkpoint say: token ids as those of
transformers' `AutoTokenizer` (version 5)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

from edgespec.errors import EdgespecError, one_line, shortened
from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.tokenizer import is_tokenizer_error
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.tokenizer.class_parts import (
    CLASSES,
    NOT_READ,
    TokenizerClass,
    Vocabulary,
)
from edgespec_export.checkpoint.tokenizer.language_settings import with_source_language
from edgespec_export.checkpoint.tokenizer.tokenizer_class import tokenizer_class
from edgespec_export.checkpoint.tokenizer.tokenizer_settings import (
    NAMES,
    Token,
    TokenizerSettings,
)

__all__ = ["auto_tokenizer", "built_tokenizer"]

Named = Mapping[str, Token | None]


def auto_tokenizer(folder: Path, config: JsonObject, in_file: Tokenizer) -> Tokenizer:
    """The tokenizer of a checkpoint with a `tokenizer.json`.

    Args:
        folder: the checkpoint.
        config: its `config.json`.
        in_file: its `tokenizer.json`, as it is.

    Raises:
        EdgespecError: a file is damaged; the class that the files name is not read here; a token
            would have another id than the files give it, or a setting changes ids in a way that a
            `tokenizer.json` cannot say.
    """
    whole = json.loads(in_file.to_str())
    settings = TokenizerSettings.read(folder, whole["added_tokens"])
    name = tokenizer_class(settings, config, _is_byte_level(whole))
    _refuse_unreadable(settings, name)
    kind = CLASSES.get(name)
    if kind is None or whole["model"]["type"] != kind.model:
        _add_tokens(in_file, settings, settings.named, settings.extra or settings.additional or ())
        return in_file
    vocabulary = {**whole["model"], "charsmap": _charsmap(whole["normalizer"])}
    made = _built(name, kind, vocabulary, settings)
    if in_file.post_processor is not None:
        made.post_processor = in_file.post_processor
    _set_post_processor(made, name, settings, named_tokens(kind, settings), from_file=True)
    return made


def built_tokenizer(folder: Path, config: JsonObject, vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer of a checkpoint without a `tokenizer.json`, from the vocabulary in its other
    files; the arguments and errors are those of `auto_tokenizer`.

    Raises:
        EdgespecError: no class that is read here takes such a vocabulary.
    """
    settings = TokenizerSettings.read(folder)
    name = tokenizer_class(settings, config, byte_level=False)
    _refuse_unreadable(settings, name)
    kind = CLASSES.get(name)
    if kind is None or vocabulary["type"] != kind.model:
        raise EdgespecError(
            f"{folder}: the class {name} does not say how its {vocabulary['type']} vocabulary is "
            "read; put the model's tokenizer.json into the folder"
        )
    made = _built(name, kind, vocabulary, settings)
    _set_post_processor(made, name, settings, named_tokens(kind, settings), from_file=False)
    return made


def _built(
    name: str, kind: TokenizerClass, vocabulary: Vocabulary, settings: TokenizerSettings
) -> Tokenizer:
    try:
        with quiet_panics():
            made = kind.build(vocabulary, settings)
    except EdgespecError:
        raise
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        raise EdgespecError(
            f"{settings.path.parent}: its vocabulary is not one of a {name} "
            f"({one_line(error)}); download the tokenizer again"
        ) from None
    named = named_tokens(kind, settings)
    extra = settings.extra
    if extra is None:
        extra = _listed(settings.additional, kind, name)
    _add_tokens(made, settings, named, extra)
    if name == "Qwen2Tokenizer":  # sets the flags of all its special tokens again
        special = [str(token) for token in (*named.values(), *extra) if token is not None]
        made.add_tokens([AddedToken(token, special=True) for token in special])
    return made


def named_tokens(kind: TokenizerClass, settings: TokenizerSettings) -> Named:
    """The special tokens of a class by role: those of the files, else its own."""
    named: dict[str, Token | None] = {}
    for key in (*NAMES, *settings.named):
        own = kind.named.get(key)
        value = settings.named.get(key, own)
        if isinstance(own, AddedToken) and isinstance(value, str):
            flags = {**own.__getstate__(), "content": value}
            value = AddedToken(**flags)
        named[key] = value
    return named


def _listed(additional: Sequence[Token] | None, kind: TokenizerClass, name: str) -> Sequence[Token]:
    """Special tokens without a role where only `special_tokens_map.json` lists any, or no file."""
    if additional is None:
        return kind.additional
    if name == "T5Tokenizer" and any("<extra_id_" in str(token) for token in additional):
        return additional
    given = {str(token) for token in additional}
    own = [token for token in kind.additional if token not in given]
    return [*own, *additional] if name == "MBartTokenizer" else [*additional, *own]


def _add_tokens(
    tokenizer: Tokenizer, settings: TokenizerSettings, named: Named, extra: Sequence[Token]
) -> None:
    """Adds tokens, or changes their flags, in the order that gives the ids of `AutoTokenizer`.

    Raises:
        EdgespecError: a token would get another id than a file gives it.
    """
    existing = tokenizer.get_added_tokens_decoder().values()
    same = {repr(token) for token in existing}
    names = {str(token) for token in named.values() if token is not None}
    new = [token for _, token in sorted(settings.declared.items()) if repr(token) not in same]
    known = {token.content for token in (*existing, *new)}
    for token in (*(named.get(key) for key in dict.fromkeys((*NAMES, *named))), *extra):
        if token is not None and str(token) not in known:
            known.add(str(token))
            new.append(AddedToken(token, special=True) if isinstance(token, str) else token)
    tokenizer.add_tokens([_special(token) if str(token) in names else token for token in new])
    for index, token in settings.declared.items():
        given = tokenizer.token_to_id(token.content)
        if given != index:
            raise EdgespecError(
                f"{settings.path.parent}: the added token {shortened(token.content)} has the id "
                f"{index} in its files, and would get {given}, as its vocabulary ends before that; "
                "put the tokenizer.json that belongs to these files into the folder"
            )


def _special(token: AddedToken) -> AddedToken:
    return AddedToken(**{**token.__getstate__(), "special": True})


def _set_post_processor(
    tokenizer: Tokenizer,
    name: str,
    settings: TokenizerSettings,
    named: Named,
    *,
    from_file: bool,
) -> None:
    """What the class puts around a text.

    Args:
        from_file: there is a `tokenizer.json`, whose own post-processor counts for most classes;
            `add_bos_token` and `add_eos_token` count only without one.
    """
    if with_source_language(tokenizer, name, settings):
        return
    if name in ("T5Tokenizer", "PegasusTokenizer"):
        _set_template(tokenizer, [], ["</s>"])
    elif name == "RobertaTokenizer":
        sep, cls = (str(named[key]) for key in ("sep_token", "cls_token"))
        _set_template(tokenizer, [cls], [sep])
    elif name == "BertTokenizer":
        _set_template(tokenizer, [str(named["cls_token"])], [str(named["sep_token"])])
    elif name == "CodeLlamaTokenizer" or name == "GPTNeoXTokenizer" or not from_file:
        begins = settings.flag("add_bos_token", name == "CodeLlamaTokenizer")
        ends = settings.flag("add_eos_token", False)
        if from_file:
            begins, ends = name == "CodeLlamaTokenizer", False
        bos, eos = named.get("bos_token"), named.get("eos_token")
        _set_template(
            tokenizer,
            [str(bos)] if begins and bos is not None else [],
            [str(eos)] if ends and eos is not None else [],
        )


def _set_template(tokenizer: Tokenizer, before: list[str], after: list[str]) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B", *after],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in {*before, *after}],
    )


def _refuse_unreadable(settings: TokenizerSettings, name: str) -> None:
    if name.removesuffix("Tokenizer") in NOT_READ:
        raise EdgespecError(
            f"{settings.path}: tokenizer_class is {name}, which makes other token ids than its "
            "tokenizer.json and is not read here; to have tokenizer.json as it is, set it to "
            "PreTrainedTokenizerFast"
        )
    if settings.flag("split_special_tokens", False):
        raise EdgespecError(
            f"{settings.path}: split_special_tokens is true: special tokens of a text would be "
            "ordinary text, those of chat templates too; set it to false"
        )


def _is_byte_level(whole: Mapping[str, Any]) -> bool:
    parts = (whole["pre_tokenizer"], whole["decoder"], whole["post_processor"])
    return any(part["type"] == "ByteLevel" for top in parts for part in _parts(top))


def _charsmap(normalizer: Mapping[str, Any] | None) -> bytes | None:
    """The table of a SentencePiece model that maps characters, if a normalizer has one."""
    for part in _parts(normalizer):
        if part["type"] == "Precompiled":
            return base64.b64decode(part["precompiled_charsmap"])
    return None


def _parts(top: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """A part of a `tokenizer.json`, or those of its sequence."""
    if top is None:
        return
    yield top
    for key in ("normalizers", "pretokenizers", "decoders", "processors"):
        for part in top.get(key, ()):
            yield from _parts(part)
