"""A SentencePiece tokenizer of kind BPE, as `tokenizers` has it: merges from the scores of pieces.

SentencePiece joins the two neighbours whose piece has the highest score, `tokenizers` those of the
first merge in a list. Kudo and Richardson (2018, arXiv 1808.06226).
"""

from __future__ import annotations

from collections.abc import Mapping

from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["SPACE", "merges_of", "sentencepiece_parts"]

SPACE = "▁"  # what a piece has instead of a space


def sentencepiece_parts(
    vocabulary: Mapping[str, int],
    merges: list[JsonValue],
    unknown: str | None,
    *,
    space_before: bool,
) -> JsonObject:
    """The parts of a `tokenizer.json` that depend on the kind of tokenizer.

    Args:
        vocabulary: every piece with its id.
        merges: pairs of pieces that are joined, the first of them first.
        unknown: the piece of characters without a piece, if there are no pieces of their bytes.
        space_before: a space is put before each part of a text between added tokens.
    """
    pieces: JsonObject = dict(vocabulary)
    spaces: JsonObject = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prefix: JsonObject = {"type": "Prepend", "prepend": SPACE}
    strip: JsonObject = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    both: list[JsonValue] = [prefix, spaces]
    return {
        "normalizer": {"type": "Sequence", "normalizers": both} if space_before else spaces,
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                *([strip] if space_before else []),
            ],
        },
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "fuse_unk": True,
            "unk_token": unknown,
            "vocab": pieces,
            "merges": merges,
        },
    }


def merges_of(vocabulary: Mapping[str, int], scores: Mapping[str, float]) -> list[JsonValue]:
    """Every pair of pieces that is a piece, by its score; of equal scores, the lower id first.

    Args:
        scores: of the pieces that neighbours may be joined to; the highest is joined first.
    """
    order = sorted(scores, key=lambda piece: (-scores[piece], vocabulary[piece]))
    return [
        [piece[:at], piece[at:]]
        for piece in order
        for at in range(1, len(piece))
        if piece[:at] in scores and piece[at:] in scores
    ]
