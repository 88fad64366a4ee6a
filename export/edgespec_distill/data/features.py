"""What the target shows of its texts: thousands of numbers for each position, kept on disk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.trainable import Causal

__all__ = ["Features"]

POSITIONS = 4096  # read at once


class Features:
    """The outputs of those layers that a target shows, at every position of texts but the last."""

    def __init__(self, target: Causal) -> None:
        self._target = target
        self._of: dict[tuple[tuple[int, ...], tuple[int, ...]], Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """Of the target, counted from 1."""
        return tuple(self._target.shows)

    def __getitem__(self, text: Text) -> Tensor:
        """[n, layers · width] of a text that was added, n its length without the last token."""
        return self._of[_name(text)]

    def add(self, texts: Sequence[Text], file: Path) -> None:
        """Takes the features of `texts` from `file`, which is written first if it is not theirs.

        They are read when they are looked at. The file appears all or not at all.
        """
        file, dtype = self._worth_candidate(file), self._target.model.dtype
        lengths = [len(text) - 1 for text in texts]
        shape = (sum(lengths), len(self.layers) * self._target.model.config.hidden_size)
        size = shape[0] * shape[1]
        if not file.exists() or file.stat().st_size != size * dtype.itemsize:
            whole = torch.empty(shape, dtype=dtype)
            self._compute(texts, torch.split(whole, lengths))
            _write(whole, file)
        stored = torch.from_file(str(file), shared=False, size=size, dtype=dtype).view(shape)
        for text, part in zip(texts, torch.split(stored, lengths), strict=True):
            self._of[_name(text)] = part

    def note(self, shown: Sequence[Tensor], file: Path) -> None:
        """Writes what was shown of texts while they were written, for `add`."""
        _write(torch.cat(list(shown)), self._worth_candidate(file))

    def _worth_candidate(self, texts: Path) -> Path:
        return texts.with_suffix(f".{str(self._target.model.dtype).removeprefix('torch.')}")

    def _compute(self, texts: Sequence[Text], places: Sequence[Tensor]) -> None:
        place_of = {id(text): place for text, place in zip(texts, places, strict=True)}
        for group in batches(texts, POSITIONS, random.Random(0)):
            found = self._target.features(group)
            for text, features in zip(group, found, strict=True):
                place_of[id(text)].copy_(features)


def _name(text: Text) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(text.prompt), tuple(text.output)


def _write(whole: Tensor, file: Path) -> None:
    with whole_file(file) as aside:
        aside.write_bytes(whole.view(torch.uint8).numpy().data)
