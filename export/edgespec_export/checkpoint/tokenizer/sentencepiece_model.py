"""A SentencePiece file: its pieces, and what it does to text before it is cut into them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import normalizers

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.protobuf_wire import fields

__all__ = ["CONTROL", "UNKNOWN", "USER_DEFINED", "SentencePieceModel"]

# Field numbers of sentencepiece_model.proto.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _BYTE_FALLBACK, _UNK_ID = 3, 35, 40
_CHARSMAP, _DUMMY_PREFIX, _TRIM_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5
_UNIGRAM = 1
# Types of pieces.
UNKNOWN = 2
CONTROL = 3
USER_DEFINED = 4


@dataclass
class SentencePieceModel:
    """A unigram model that puts a space before a text and merges spaces.

    Attributes:
        pieces: text, score and type of each, by its id.
    """

    path: Path
    pieces: list[tuple[str, float, int]] = field(default_factory=list)
    _trainer: dict[int, int | bytes] = field(default_factory=dict)
    _normalizer: dict[int, int | bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> SentencePieceModel:
        """Raises EdgespecError if the file is corrupt, or has settings that are not implemented."""
        model = cls(path)
        try:
            for number, value in fields(path.read_bytes()):
                if number == _PIECES and isinstance(value, bytes):
                    model.pieces.append(_piece(value))
                elif number == _TRAINER and isinstance(value, bytes):
                    model._trainer = dict(fields(value))
                elif number == _NORMALIZER and isinstance(value, bytes):
                    model._normalizer = dict(fields(value))
        except (OSError, ValueError, TypeError, struct.error) as error:
            raise EdgespecError(
                f"{path}: cut off or not a SentencePiece model ({error}): download it again"
            ) from error
        model._check()
        return model

    @classmethod
    def of(
        cls,
        path: Path,
        pieces: list[tuple[str, float, int]],
        *,
        unknown_id: int,
        byte_fallback: bool,
        charsmap: bytes | None,
    ) -> SentencePieceModel:
        """The model that another file describes."""
        trainer: dict[int, int | bytes] = {_UNK_ID: unknown_id, _BYTE_FALLBACK: byte_fallback}
        return cls(path, pieces, trainer, {} if charsmap is None else {_CHARSMAP: charsmap})

    @property
    def unknown_id(self) -> int:
        return int(self._trainer.get(_UNK_ID, 0))

    @property
    def has_byte_fallback(self) -> bool:
        """Whether an unknown character is split into bytes."""
        return bool(self._trainer.get(_BYTE_FALLBACK, 0))

    def normalizer(self) -> normalizers.Normalizer | None:
        """What it does to characters. The library raises bare exceptions for a corrupt table."""
        return None if self.charsmap is None else normalizers.Precompiled(self.charsmap)

    @property
    def charsmap(self) -> bytes | None:
        """The table that maps characters."""
        charsmap = self._normalizer.get(_CHARSMAP)
        return charsmap if isinstance(charsmap, bytes) and charsmap else None

    def _check(self) -> None:
        if self._trainer.get(_MODEL_TYPE, _UNIGRAM) != _UNIGRAM:
            raise EdgespecError(
                f"{self.path}: is not a unigram model: put the model's tokenizer.json into its "
                "folder"
            )
        for number, name in (
            (_DUMMY_PREFIX, "add_dummy_prefix"),
            (_TRIM_SPACES, "remove_extra_whitespaces"),
            (_ESCAPE_SPACES, "escape_whitespaces"),
        ):
            if not self._normalizer.get(number, 1):
                raise EdgespecError(
                    f"{self.path}: has {name} switched off, unlike T5: put the model's "
                    "tokenizer.json into its folder"
                )


def _piece(message: bytes) -> tuple[str, float, int]:
    parts = dict(fields(message))
    text, score = bytes(parts.get(_PIECE, b"")), bytes(parts.get(_SCORE, bytes(4)))
    return text.decode("utf-8"), struct.unpack("<f", score)[0], int(parts.get(_TYPE, 1))
