"""The target's features of its texts, which EAGLE drafts read.

They are large, so they are in files; where these would take too much of the disk, the features are
computed again each time a text is read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.examples import Text, batches
from edgespec_distill.models.causal import Causal

__all__ = ["Features"]

POSITIONS = 4096  # computed at once

TextKey = tuple[tuple[int, ...], tuple[int, ...]]


class Features:
    """The outputs of some of the target's layers, at all positions of texts but the last.

    Args:
        most_bytes: of all files together.
    """

    def __init__(self, target: Causal, most_bytes: float) -> None:
        self._target, self._most_bytes = target, most_bytes
        self._features: dict[TextKey, Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """The target's layers whose outputs are the features, counted from 1."""
        return tuple(self._target.feature_layers)

    def __getitem__(self, text: Text) -> Tensor:
        """[n, layers · width] of a text; n is its length without the last token."""
        stored = self._features.get(_key(text))
        return self._target.features([text])[0] if stored is None else stored

    def add(self, texts: Sequence[Text], examples_file: Path) -> None:
        """Adds texts that are stored in `examples_file`.

        Their features are mapped from a file with a similar name. If it does not fit the texts,
        they are computed and it is written again, completely or not at all, where there is room.
        """
        file, dtype = self._file(examples_file), self._target.model.dtype
        lengths = [len(text) - 1 for text in texts]
        shape = (sum(lengths), len(self.layers) * self._target.model.config.hidden_size)
        size = shape[0] * shape[1]
        if not file.exists() or file.stat().st_size != size * dtype.itemsize:
            if not self._has_room(size * dtype.itemsize, file):
                return
            computed = torch.empty(shape, dtype=dtype)
            self._compute(texts, torch.split(computed, lengths))
            _write(computed, file)
        stored = torch.from_file(str(file), shared=False, size=size, dtype=dtype).view(shape)
        for text, part in zip(texts, torch.split(stored, lengths), strict=True):
            self._features[_key(text)] = part

    def write(self, features: Sequence[Tensor], examples_file: Path) -> None:
        """Writes features that were computed while the texts were generated, for `add`, where there
        is room."""
        file = self._file(examples_file)
        if self._has_room(sum(part.nbytes for part in features), file):
            _write(torch.cat(list(features)), file)

    def _has_room(self, size: int, file: Path) -> bool:
        """Whether a file of this size fits beside the others."""
        others = (other for other in file.parent.glob(f"*{file.suffix}") if other != file)
        return size + sum(other.stat().st_size for other in others) <= self._most_bytes

    def _file(self, examples_file: Path) -> Path:
        dtype = str(self._target.model.dtype).removeprefix("torch.")
        return examples_file.with_suffix(f".{dtype}")

    def _compute(self, texts: Sequence[Text], results: Sequence[Tensor]) -> None:
        """Writes the features of each text into the tensor of the same index."""
        result_of = {id(text): result for text, result in zip(texts, results, strict=True)}
        for group in batches(texts, POSITIONS, random.Random(0)):
            computed = self._target.features(group)
            for text, features in zip(group, computed, strict=True):
                result_of[id(text)].copy_(features)


def _key(text: Text) -> TextKey:
    return tuple(text.prompt), tuple(text.output)


def _write(features: Tensor, file: Path) -> None:
    with whole_file(file) as aside:
        aside.write_bytes(features.view(torch.uint8).numpy().data)
