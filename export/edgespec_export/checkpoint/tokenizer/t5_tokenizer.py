"""T5's SentencePiece file as a tokenizer."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import Unigram

from edgespec.errors import EdgespecError, one_line
from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.foreign.tokenizer_trial import try_texts
from edgespec.pair.tokenizer import is_tokenizer_error
from edgespec_export.checkpoint.tokenizer.sentencepiece_model import (
    CONTROL,
    UNKNOWN,
    USER_DEFINED,
    SentencePieceModel,
)

__all__ = ["t5_tokenizer", "unigram_tokenizer"]

_EOS = "</s>"


def t5_tokenizer(path: Path, extra_ids: int) -> Tokenizer:
    """The tokenizer of a `spiece.model`, as transformers' T5 tokenizer builds it.

    One difference: models trained with byte fallback (mT5) split unknown characters into bytes, as
    in SentencePiece; transformers returns `<unk>`.

    Args:
        path: the file.
        extra_ids: number of `<extra_id_…>` tokens after the vocabulary, the highest id first.

    Raises:
        EdgespecError: the file is corrupt, or is not a unigram model with T5's settings.
    """
    return unigram_tokenizer(SentencePieceModel.read(path), extra_ids)


def unigram_tokenizer(model: SentencePieceModel, extra_ids: int) -> Tokenizer:
    """As `t5_tokenizer`, of a model that is read already.

    Raises:
        EdgespecError: it has no `</s>`, or its table of characters is corrupt.
    """
    if _EOS not in (text for text, _, _ in model.pieces):
        raise EdgespecError(f"{model.path}: has no piece {_EOS!r}, so it is not T5's")
    extra = [f"<extra_id_{number}>" for number in reversed(range(extra_ids))]
    vocabulary = [(text, score) for text, score, _ in model.pieces]
    vocabulary += [(token, 0.0) for token in extra]
    fallback = model.has_byte_fallback
    try:
        with quiet_panics():
            tokenizer = Tokenizer(
                Unigram(vocabulary, unk_id=model.unknown_id, byte_fallback=fallback)
            )
            if (normalizer := model.normalizer()) is not None:
                tokenizer.normalizer = normalizer
            _set_spaces(tokenizer, fallback)
            _add_special(tokenizer, model, extra)
            try_texts(tokenizer)
    except BaseException as error:
        if not is_tokenizer_error(error):
            raise
        reason = one_line(error)
        raise EdgespecError(f"{model.path}: is corrupt ({reason}): download it again") from None
    return tokenizer


def _set_spaces(tokenizer: Tokenizer, fallback: bool) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    if fallback:
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])


def _add_special(tokenizer: Tokenizer, model: SentencePieceModel, extra: list[str]) -> None:
    special = [text for text, _, kind in model.pieces if kind in (UNKNOWN, CONTROL)]
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in special + extra]
    )
    tokenizer.add_tokens(
        [
            AddedToken(text, normalized=False)
            for text, _, kind in model.pieces
            if kind == USER_DEFINED
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", _EOS],
        pair=["$A", _EOS, "$B", _EOS],
        special_tokens=[(_EOS, tokenizer.token_to_id(_EOS))],
    )
