"""What the target shows of its texts, on disk: thousands of numbers for each position."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgespec_export.distill.examples import Example, Shown, batches
from edgespec_export.distill.models import Causal

__all__ = ["shown"]

POSITIONS = 4096  # read at once


def shown(
    target: Causal, examples: Sequence[Example], layers: Sequence[int], file: Path
) -> list[Shown]:
    """The examples with their features, which the target computes unless `file` has them.

    They are read from the file when they are looked at, and appear in it all or not at all.
    """
    lengths = [len(example) - 1 for example in examples]
    width = len(layers) * target.model.config.hidden_size
    shape, dtype = (sum(lengths), width), target.model.dtype
    if not file.exists():
        whole = torch.empty(shape, dtype=dtype)
        _compute(target, examples, layers, torch.split(whole, lengths))
        aside = file.with_suffix(".partial")
        aside.write_bytes(whole.view(torch.uint8).numpy().data)
        aside.replace(file)
    stored = torch.from_file(str(file), shared=False, size=shape[0] * width, dtype=dtype)
    parts = torch.split(stored.view(shape), lengths)
    return [
        Shown(example.prompt, example.output, example.tokens, example.logs, part)
        for example, part in zip(examples, parts, strict=True)
    ]


def _compute(
    target: Causal, examples: Sequence[Example], layers: Sequence[int], places: Sequence[Tensor]
) -> None:
    place_of = {id(example): place for example, place in zip(examples, places, strict=True)}
    for group in batches(examples, POSITIONS, random.Random(0)):
        for example, features in zip(group, target.features(group, layers), strict=True):
            place_of[id(example)].copy_(features)
