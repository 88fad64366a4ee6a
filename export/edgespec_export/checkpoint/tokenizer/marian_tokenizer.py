"""A Marian model's two SentencePiece files and vocabulary as one tokenizer (OPUS-MT's layout).

`source.spm` cuts what the encoder reads; token ids are those of `vocab.json`, which has the pieces
of both languages. A tokenizer has one list of pieces, so those of the target language alone get a
score with which they never win.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import Unigram

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.tokenizer.sentencepiece_model import (
    CONTROL,
    UNKNOWN,
    SentencePieceModel,
)

__all__ = ["SOURCE_PIECES", "marian_tokenizer"]

SOURCE_PIECES = "source.spm"
VOCABULARY = "vocab.json"
SECOND_VOCABULARY = "target_vocab.json"
_END, _UNKNOWN, _PAD = "</s>", "<unk>", "<pad>"
_LANGUAGE = re.compile(r">>.+<<")
# Scores of pieces that the source language does not have: a character alone is taken where it
# stands alone, several never.
_CHARACTER_SCORE, _UNUSED_SCORE = -1e6, -1e9
# A noncharacter, which no vocabulary has: stands for characters that the source does not have.
_FOREIGN = "\uffff"


def marian_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint with `source.spm` and `vocab.json`, as transformers has it.

    Differences: several characters in a row that no piece of the source has are `<unk>`; in
    transformers they are a token if `vocab.json` has exactly these. So is a language `>>xx<<` that
    `vocab.json` lacks; here its characters are read.

    Raises:
        EdgespecError: a file is missing or corrupt, source and target have vocabularies of their
            own, or the ids of `vocab.json` have gaps.
    """
    if (folder / SECOND_VOCABULARY).is_file():
        raise EdgespecError(
            f"{folder}: {SECOND_VOCABULARY} is not read: source and target must share one "
            f"{VOCABULARY}"
        )
    model = SentencePieceModel.read(folder / SOURCE_PIECES)
    path = folder / VOCABULARY
    tokens = _tokens(path, read_json_object(path))
    scores = _source_scores(model)
    vocabulary = [
        (token, scores.get(token, _CHARACTER_SCORE if len(token) == 1 else _UNUSED_SCORE))
        for token in tokens
    ]
    try:
        tokenizer = Tokenizer(Unigram(vocabulary, unk_id=tokens.index(_UNKNOWN)))
        tokenizer.normalizer = _normalizer(model, tokens)
    except Exception as error:  # the library raises bare Exceptions
        raise EdgespecError(f"{model.path}: is corrupt ({error}): download it again") from error
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    special = [_END, _UNKNOWN, _PAD, *filter(_LANGUAGE.fullmatch, tokens)]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", _END],
        pair=["$A", "$B", _END],
        special_tokens=[(_END, tokens.index(_END))],
    )
    return tokenizer


def _source_scores(model: SentencePieceModel) -> dict[str, float]:
    return {text: score for text, score, kind in model.pieces if kind not in (CONTROL, UNKNOWN)}


def _normalizer(model: SentencePieceModel, tokens: Sequence[str]) -> normalizers.Normalizer:
    """That of the source, then `_FOREIGN` for characters that no piece of the source has: each run
    of them, and one alone unless it is a token."""
    known = _character_class({one for text in _source_scores(model) for one in text})
    single = _character_class({token for token in tokens if len(token) == 1})
    pattern = rf"[^\s{known}]{{2,}}|[^\s{known}{single}]"
    foreign = normalizers.Replace(Regex(pattern), _FOREIGN)
    own = model.normalizer()
    return foreign if own is None else normalizers.Sequence([own, foreign])


def _character_class(characters: Set[str]) -> str:
    """What stands between the brackets, for the syntaxes of Rust's library and of JavaScript."""
    return "".join(f"\\{one}" if one in r"\]^-[" else one for one in sorted(characters))


def _tokens(path: Path, ids: JsonObject) -> list[str]:
    """The tokens by their ids."""
    numbers = {number: token for token, number in ids.items() if type(number) is int}
    if sorted(numbers) != list(range(len(ids))):
        raise EdgespecError(f"{path}: its ids are not the numbers from 0 to {len(ids) - 1}")
    for token in (_END, _UNKNOWN, _PAD):
        if token not in ids:
            raise EdgespecError(f"{path}: has no token {shortened(token)}, so it is not Marian's")
    return [numbers[number] for number in range(len(ids))]
