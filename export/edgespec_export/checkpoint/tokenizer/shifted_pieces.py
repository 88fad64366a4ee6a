"""SentencePiece files whose token ids are not those of their pieces: mBART's and Pegasus's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.tokenizer.class_parts import Vocabulary
from edgespec_export.checkpoint.tokenizer.sentencepiece_model import SentencePieceModel

__all__ = ["mbart_vocabulary", "pegasus_vocabulary"]

_OFFSET = 103  # Pegasus's tokens before its pieces, without the two that the pieces begin with


def mbart_vocabulary(path: Path, languages: Sequence[str]) -> Vocabulary:
    """Four tokens of fairseq in place of the first three pieces; languages follow the pieces.

    Args:
        languages: the codes of the tokenizer's class.

    Raises:
        EdgespecError: the file is corrupt, or not a unigram model with mBART's first pieces.
    """
    model = SentencePieceModel.read(path)
    _check_first(model, ["<unk>", "<s>", "</s>"], "mBART's")
    return _vocabulary(model, ["<s>", "<pad>", "</s>", "<unk>"], 3, [*languages, "<mask>"])


def pegasus_vocabulary(path: Path) -> Vocabulary:
    """`<mask_1>`, `<mask_2>` and 101 unknown tokens stand after the first two pieces.

    Raises:
        EdgespecError: the file is corrupt, or not a unigram model with Pegasus's first pieces.
    """
    model = SentencePieceModel.read(path)
    _check_first(model, ["<pad>", "</s>", "<unk>"], "Pegasus's")
    unknown = [f"<unk_{number}>" for number in range(2, _OFFSET)]
    return _vocabulary(model, ["<pad>", "</s>", "<mask_1>", "<mask_2>", *unknown], 2, [])


def _check_first(model: SentencePieceModel, expected: list[str], whose: str) -> None:
    first = [text for text, _, _ in model.pieces[: len(expected)]]
    if first != expected:
        raise EdgespecError(
            f"{model.path}: begins with the pieces {', '.join(first)}, not {', '.join(expected)}, "
            f"so it is not {whose}; put the model's tokenizer.json into the folder"
        )


def _vocabulary(
    model: SentencePieceModel, first: list[str], skipped: int, last: list[str]
) -> Vocabulary:
    """Tokens before and after the pieces, without some first ones."""
    kept = [(text, score) for text, score, _ in model.pieces[skipped:]]
    # Pegasus's unknown tokens are never part of a text.
    start = [(token, -100.0 if token.startswith("<unk_") else 0.0) for token in first]
    vocab = [*start, *kept, *((token, 0.0) for token in last)]
    return {"type": "Unigram", "vocab": vocab, "charsmap": model.charsmap}
