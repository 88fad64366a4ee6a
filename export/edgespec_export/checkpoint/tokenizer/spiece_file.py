"""T5's SentencePiece file as a tokenizer."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.protobuf_wire import fields

__all__ = ["read_spiece"]

# Field numbers of sentencepiece_model.proto.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _BYTE_FALLBACK, _UNK_ID = 3, 35, 40
_CHARSMAP, _DUMMY_PREFIX, _TRIM_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5
_UNIGRAM = 1
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
_EOS = "</s>"


@dataclass
class _Model:
    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    trainer: dict[int, int | bytes] = field(default_factory=dict)
    normalizer: dict[int, int | bytes] = field(default_factory=dict)


def read_spiece(path: Path, extra_ids: int) -> Tokenizer:
    """The tokenizer of a `spiece.model`, as transformers' T5 tokenizer builds it.

    One difference: models trained with byte fallback (mT5) split unknown characters into bytes, as
    in SentencePiece; transformers returns `<unk>`.

    Args:
        path: the file.
        extra_ids: number of `<extra_id_…>` tokens after the vocabulary, the highest id first.

    Raises:
        EdgespecError: the file is corrupt, or is not a unigram model with T5's settings.
    """
    model = _read(path)
    _check(path, model)
    unk_id = int(model.trainer.get(_UNK_ID, 0))
    extra = [f"<extra_id_{number}>" for number in reversed(range(extra_ids))]
    vocabulary = [(text, score) for text, score, _ in model.pieces]
    vocabulary += [(token, 0.0) for token in extra]
    fallback = bool(model.trainer.get(_BYTE_FALLBACK, 0))
    try:
        tokenizer = Tokenizer(Unigram(vocabulary, unk_id=unk_id, byte_fallback=fallback))
        charsmap = model.normalizer.get(_CHARSMAP)
        if isinstance(charsmap, bytes) and charsmap:
            tokenizer.normalizer = normalizers.Precompiled(charsmap)
    except Exception as error:  # the library raises bare Exceptions
        raise EdgespecError(f"{path}: is corrupt ({error}): download it again") from error
    _set_spaces(tokenizer, fallback)
    _add_special(tokenizer, model, extra)
    return tokenizer


def _set_spaces(tokenizer: Tokenizer, fallback: bool) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    if fallback:
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])


def _add_special(tokenizer: Tokenizer, model: _Model, extra: list[str]) -> None:
    special = [text for text, _, kind in model.pieces if kind in (_UNKNOWN, _CONTROL)]
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in special + extra]
    )
    tokenizer.add_tokens(
        [
            AddedToken(text, normalized=False)
            for text, _, kind in model.pieces
            if kind == _USER_DEFINED
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", _EOS],
        pair=["$A", _EOS, "$B", _EOS],
        special_tokens=[(_EOS, tokenizer.token_to_id(_EOS))],
    )


def _check(path: Path, model: _Model) -> None:
    """Raises EdgespecError for settings that `read_spiece` does not implement."""
    if model.trainer.get(_MODEL_TYPE, _UNIGRAM) != _UNIGRAM:
        raise EdgespecError(
            f"{path}: is not a unigram model: put the model's tokenizer.json into its folder"
        )
    for number, name in (
        (_DUMMY_PREFIX, "add_dummy_prefix"),
        (_TRIM_SPACES, "remove_extra_whitespaces"),
        (_ESCAPE_SPACES, "escape_whitespaces"),
    ):
        if not model.normalizer.get(number, 1):
            raise EdgespecError(
                f"{path}: has {name} switched off, unlike T5: put the model's tokenizer.json "
                "into its folder"
            )
    if _EOS not in (text for text, _, _ in model.pieces):
        raise EdgespecError(f"{path}: has no piece {_EOS!r}, so it is not T5's")


def _read(path: Path) -> _Model:
    model = _Model()
    try:
        for number, value in fields(path.read_bytes()):
            if number == _PIECES and isinstance(value, bytes):
                model.pieces.append(_piece(value))
            elif number == _TRAINER and isinstance(value, bytes):
                model.trainer = dict(fields(value))
            elif number == _NORMALIZER and isinstance(value, bytes):
                model.normalizer = dict(fields(value))
    except (OSError, ValueError, TypeError, struct.error) as error:
        raise EdgespecError(
            f"{path}: cut off or not a SentencePiece model ({error}): download it again"
        ) from error
    return model


def _piece(message: bytes) -> tuple[str, float, int]:
    parts = dict(fields(message))
    text, score = bytes(parts.get(_PIECE, b"")), bytes(parts.get(_SCORE, bytes(4)))
    return text.decode("utf-8"), struct.unpack("<f", score)[0], int(parts.get(_TYPE, 1))
