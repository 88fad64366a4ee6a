"""T5's tokenizer from a GGUF file's metadata: SentencePiece of kind unigram."""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_pretokenizers import Rules
from edgespec_export.checkpoint.gguf.gguf_vocabulary import (
    BYTE,
    UNUSED,
    WAY_OUT,
    list_of,
    tokens_of,
)
from edgespec_export.checkpoint.tokenizer.sentencepiece_model import SentencePieceModel
from edgespec_export.checkpoint.tokenizer.t5_tokenizer import unigram_tokenizer

__all__ = ["UNIGRAM", "gguf_unigram"]

UNIGRAM = Rules(steps=(), adds_eos=True)
# `<extra_id_0>` and so on, which the converter calls unused; T5 has as many by default.
_EXTRA_IDS = 100
_ALWAYS = ("add_space_prefix", "remove_extra_whitespaces")


def gguf_unigram(header: GgufHeader) -> Tokenizer:
    """The tokenizer without the ends that it adds to a text.

    Raises:
        EdgespecError: lists that do not fit together, or other settings than T5's.
    """
    for name in _ALWAYS:
        if header.metadata.get(f"tokenizer.ggml.{name}", True) is not True:
            raise EdgespecError(
                f"{header.path}: tokenizer.ggml.{name} is switched off, unlike T5: {WAY_OUT}"
            )
    tokens, scores = tokens_of(header), list_of(header, "scores")
    if len(scores) != len(tokens):
        raise EdgespecError(f"{header.path}: lacks the scores of its {len(tokens)} tokens")
    used = 1 + max((index for index, _, kind in tokens if kind != UNUSED), default=-1)
    pieces = [
        (token, float(score), kind)
        for (_, token, kind), score in zip(tokens[:used], scores, strict=False)
        if isinstance(score, int | float)
    ]
    unknown = header.metadata.get("tokenizer.ggml.unknown_token_id", 2)
    if len(pieces) != used or type(unknown) is not int or not 0 <= unknown < used:
        raise EdgespecError(
            f"{header.path}: a score of its tokens is not a number, or its unknown token "
            f"{shortened(unknown)} none of them: {WAY_OUT}"
        )
    model = SentencePieceModel.of(
        header.path,
        pieces,
        unknown_id=unknown,
        byte_fallback=any(kind == BYTE for _, _, kind in pieces),
        charsmap=_charsmap(header),
    )
    extra_ids = _EXTRA_IDS if len(tokens) - used >= _EXTRA_IDS else 0
    tokenizer = unigram_tokenizer(model, extra_ids)
    tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return tokenizer


def _charsmap(header: GgufHeader) -> bytes | None:
    if "tokenizer.ggml.precompiled_charsmap" not in header.metadata:
        return None
    numbers = list_of(header, "precompiled_charsmap")
    return bytes(number & 0xFF for number in numbers if isinstance(number, int))
