"""A byte-level BPE or a SentencePiece tokenizer from a GGUF file's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from edgespec.errors import EdgespecError, one_line, shortened
from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.foreign.tokenizer_trial import try_texts
from edgespec.pair.tokenizer import is_tokenizer_error
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_pretokenizers import PRE_TOKENIZERS, Rules, byte_level
from edgespec_export.checkpoint.gguf.gguf_sentencepiece import SPACE, merges_of, sentencepiece_parts
from edgespec_export.checkpoint.gguf.gguf_unigram import UNIGRAM, gguf_unigram
from edgespec_export.checkpoint.gguf.gguf_vocabulary import (
    CONTROL,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    WAY_OUT,
    list_of,
    tokens_of,
)
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["check_vocabulary", "control_tokens", "gguf_tokenizer"]

_SENTENCEPIECE = Rules(steps=(), adds_bos=True)
# Phi-3's tokens of which the space after them is not part of the text: all but these. The file
# does not say so, nor that this tokenizer puts a space before each part of a text.
_SPACED = "phi3"
_KEEP_SPACE = {"<unk>", "<s>", "<|endoftext|>"}


def gguf_tokenizer(header: GgufHeader) -> Tokenizer:
    """The tokenizer a GGUF file describes.

    Raises:
        EdgespecError: an unknown kind of tokenizer or pre-tokenizer, by name, or a vocabulary
            whose parts do not fit together.
    """
    model, pre = (header.metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
    if model == "t5":
        tokenizer = gguf_unigram(header)
        _add_ends(tokenizer, header, UNIGRAM)
        return tokenizer
    spaced = header.metadata.get("tokenizer.ggml.add_space_prefix", True) is not False
    if model == "llama" and (not spaced or header.metadata.get("general.architecture") == _SPACED):
        rules, parts = _SENTENCEPIECE, _sentencepiece(header, space_before=spaced)
    elif model == "gemma4":
        rules, parts = _SENTENCEPIECE, _sentencepiece(header, space_before=False)
    elif model == "gpt2" and isinstance(pre, str) and pre in PRE_TOKENIZERS:
        rules = PRE_TOKENIZERS[pre]
        parts = _byte_level_bpe(header, rules)
    else:
        raise EdgespecError(
            f"{header.path}: tokenizer {shortened(model)} with pre-tokenizer {shortened(pre)} is "
            f"not known (known: 'gpt2' with {', '.join(PRE_TOKENIZERS)}, 't5', 'gemma4', and "
            f"'llama' without a space before texts): {WAY_OUT}"
        )
    try:
        with quiet_panics():
            tokenizer = Tokenizer.from_str(json.dumps({"version": "1.0", **parts}))
            try_texts(tokenizer)
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        reason = one_line(error)
        raise EdgespecError(
            f"{header.path}: its vocabulary and merges do not fit ({reason}): {WAY_OUT}"
        ) from None
    _add_ends(tokenizer, header, rules)
    return tokenizer


def control_tokens(header: GgufHeader) -> dict[str, int]:
    """Ids of the control tokens, by their texts."""
    return {token: index for index, token, kind in tokens_of(header) if kind == CONTROL}


def check_vocabulary(header: GgufHeader, tokenizer: Tokenizer, where: str) -> None:
    """Raises EdgespecError if an ordinary token of the GGUF file has another id in `tokenizer`.

    Args:
        where: the tokenizer's file, for the message.
    """
    for index, token, kind in tokens_of(header):
        if kind == NORMAL and tokenizer.id_to_token(index) != token:
            raise EdgespecError(
                f"{where}: belongs to another model than {header.path.name}: token {index} is "
                f"{shortened(tokenizer.id_to_token(index))} here and {shortened(token)} there"
            )


def _byte_level_bpe(header: GgufHeader, rules: Rules) -> JsonObject:
    """The parts of the `tokenizer.json` that a GGUF file describes."""
    tokens = tokens_of(header)
    return {
        "added_tokens": [
            _added(index, token, special=kind == CONTROL)
            for index, token, kind in tokens
            if kind in (CONTROL, USER_DEFINED)
        ],
        "normalizer": rules.normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rules.steps)},
        "decoder": byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "ignore_merges": rules.ignore_merges,
            # Unused ids pad the embedding; they are not tokens.
            "vocab": {token: index for index, token, kind in tokens if kind != UNUSED},
            "merges": list_of(header, "merges"),
        },
    }


def _sentencepiece(header: GgufHeader, *, space_before: bool) -> JsonObject:
    """The same for a file whose pieces have "▁" for a space, with scores or with merges.

    Tokens that a user defined are found before any others, also those of several spaces, which the
    file spells as spaces.
    """
    tokens = tokens_of(header)
    pieces = {
        token.replace(" ", SPACE) if kind == USER_DEFINED else token: (index, kind)
        for index, token, kind in tokens
    }
    unknown = header.metadata.get("tokenizer.ggml.unknown_token_id")
    return {
        "added_tokens": [
            _added(
                index,
                piece,
                special=kind == CONTROL,
                normalized=kind == USER_DEFINED and not space_before,
                takes_space=space_before and piece not in _KEEP_SPACE,
            )
            for piece, (index, kind) in pieces.items()
            if kind in (CONTROL, USER_DEFINED)
        ],
        **sentencepiece_parts(
            {piece: index for piece, (index, _) in pieces.items()},
            _merges(header, pieces),
            next((piece for piece, (index, _) in pieces.items() if index == unknown), None),
            space_before=space_before,
        ),
    }


def _merges(header: GgufHeader, pieces: Mapping[str, tuple[int, int]]) -> list[JsonValue]:
    """The merges of a file, or those that its scores say.

    Args:
        pieces: each with its id and its kind.
    """
    if "tokenizer.ggml.merges" in header.metadata:
        return list(list_of(header, "merges"))
    scores = [score for score in list_of(header, "scores") if isinstance(score, int | float)]
    if len(scores) != len(pieces):
        raise EdgespecError(f"{header.path}: lacks the scores of its {len(pieces)} tokens")
    normal = {piece: scores[index] for piece, (index, kind) in pieces.items() if kind == NORMAL}
    return merges_of({piece: index for piece, (index, _) in pieces.items()}, normal)


def _added(
    index: int, token: str, *, special: bool, normalized: bool = False, takes_space: bool = False
) -> JsonObject:
    return {
        "id": index,
        "content": token,
        "special": special,
        "normalized": normalized,
        "single_word": False,
        "lstrip": False,
        "rstrip": takes_space,
    }


def _add_ends(tokenizer: Tokenizer, header: GgufHeader, rules: Rules) -> None:
    """Adds the first and the last token of a text, if the file says so."""
    wanted = {
        "bos": header.metadata.get("tokenizer.ggml.add_bos_token", rules.adds_bos),
        "eos": header.metadata.get("tokenizer.ggml.add_eos_token", rules.adds_eos),
    }
    ends: dict[str, list[tuple[str, int]]] = {"bos": [], "eos": []}
    for end in (end for end in ends if wanted[end]):
        index = header.metadata.get(f"tokenizer.ggml.{end}_token_id")
        if not isinstance(index, int) or (token := tokenizer.id_to_token(index)) is None:
            raise EdgespecError(
                f"{header.path}: adds the {end} token, but its id is {shortened(index)}"
            )
        ends[end].append((token, index))
    if any(ends.values()):
        before, after = ([token for token, _ in ends[end]] for end in ("bos", "eos"))
        tokenizer.post_processor = TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", "$B", *after],
            special_tokens=list(dict(ends["bos"] + ends["eos"]).items()),
        )
