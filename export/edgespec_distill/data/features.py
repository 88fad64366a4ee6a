"""The target's features of its texts, which drafts that read them need: stored, or computed again.

Tokens are small and always kept. A position's features take kilobytes, so they are in files only as
long as these fit a bound; those of further texts are computed whenever a batch needs them. Both
have the same bits, because a text's features depend on that text alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.examples import Text

__all__ = ["Features", "ShowingTarget"]

TEXTS_AT_ONCE = 32  # that are read together, where the target does so

AnyText = TypeVar("AnyText", bound=Text)


@runtime_checkable
class ShowingTarget(Protocol):
    """A target with features.

    Attributes:
        model: in transformers, or its tables and norm; its type is the features'.
        feature_layers: the decoder's layers, counted from 1, whose outputs are the features.
    """

    model: Any
    feature_layers: Sequence[int]

    def features(self, texts: Sequence[Text]) -> list[Tensor]:
        """The features of each text: [shown positions, layers · width]."""
        ...

    def shown_positions(self, text: Text) -> int:
        """How many positions of a text have features: all of the decoder's but the last."""
        ...


class Features:
    """The outputs of some of the target's layers, at all positions of the decoder but the last.

    Args:
        most_bytes: of all files together.
    """

    def __init__(self, target: ShowingTarget, most_bytes: float) -> None:
        self._target, self._most_bytes = target, most_bytes
        self._stored: dict[bytes, Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """The target's layers whose outputs are the features, counted from 1."""
        return tuple(self._target.feature_layers)

    def of(self, texts: Sequence[Text]) -> list[Tensor]:
        """[n, layers · width] of each text with n shown positions."""
        found = [self._stored.get(_key(text)) for text in texts]
        missing = [text for text, part in zip(texts, found, strict=True) if part is None]
        computed = iter(self._target.features(missing) if missing else ())
        return [next(computed) if part is None else part for part in found]

    def read(self, texts: Sequence[AnyText]) -> Iterator[tuple[AnyText, Tensor]]:
        """Texts with their features, which are computed now."""
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            group = texts[first : first + TEXTS_AT_ONCE]
            yield from zip(group, self._target.features(group), strict=True)

    def keeping(
        self, pairs: Iterable[tuple[AnyText, Tensor | None]], examples_file: Path
    ) -> Iterator[AnyText]:
        """The texts of pairs. On the way their features are written for `add`, those of the first
        texts, as many as there is room for. The file appears when all texts were taken.

        Args:
            pairs: texts with their features; None: they are computed if there is room.
            examples_file: the file that the texts are stored in.
        """
        file = self._file(examples_file)
        room = self._room_for(file)
        with whole_file(file) as aside, aside.open("wb") as out:
            for text, features in pairs:
                room -= self._position_bytes * self._target.shown_positions(text)
                if room >= 0:
                    found = self._target.features([text])[0] if features is None else features
                    out.write(found.contiguous().view(torch.uint8).numpy().data)
                yield text

    def add(self, texts: Sequence[Text], examples_file: Path) -> None:
        """Maps what is stored of the texts in `examples_file`; without a file it is computed and
        written first, where there is room."""
        file, dtype = self._file(examples_file), self._target.model.dtype
        if not file.exists():
            for _ in self.keeping(((text, None) for text in texts), examples_file):
                pass
        size = file.stat().st_size // dtype.itemsize
        if size == 0:
            return
        stored = torch.from_file(str(file), shared=False, size=size, dtype=dtype)
        counts = [self._target.shown_positions(text) for text in texts]
        rows = stored.view(-1, self._position_bytes // dtype.itemsize)
        for text, count, end in zip(texts, counts, accumulate(counts), strict=True):
            if end <= len(rows):
                self._stored[_key(text)] = rows[end - count : end]

    @property
    def _position_bytes(self) -> int:
        model = self._target.model
        return len(self.layers) * int(model.config.hidden_size) * int(model.dtype.itemsize)

    def _room_for(self, file: Path) -> float:
        """Bytes that this file may have beside the others."""
        others = (other for other in file.parent.glob(f"*{file.suffix}") if other != file)
        return self._most_bytes - sum(other.stat().st_size for other in others)

    def _file(self, examples_file: Path) -> Path:
        dtype = str(self._target.model.dtype).removeprefix("torch.")
        return examples_file.with_suffix(f".{dtype}")


def _key(text: Text) -> bytes:
    return array("i", [len(text.prompt), *text.prompt, *text.output]).tobytes()
