"""The tokens that a draft knows: a draft may do with the frequent ones of its target.

Half of a small model is its vocabulary, and a draft's guess in a rare token seldom counts. What
the draft cannot say it is never accepted for; the distribution of the target stays exact.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgespec.artifact.manifest import VOCABULARY

__all__ = ["Vocabulary", "frequent", "whole"]


@dataclass(frozen=True)
class Vocabulary:
    """Two maps between a target's tokens and its draft's.

    Attributes:
        outputs: [draft's tokens] which target token each is, increasing.
        inputs: [target's tokens] which draft token stands for each: itself, or its nearest.
    """

    outputs: Tensor
    inputs: Tensor

    def known(self, tokens: Tensor) -> Tensor:
        """Which target tokens are the draft's own (bool, like `tokens`)."""
        return self.outputs[self.inputs[tokens]] == tokens

    def save(self, folder: Path) -> None:
        """Writes what an export reads; nothing where draft and target have the same tokens."""
        if len(self.outputs) < len(self.inputs):
            maps = {"outputs": self.outputs.tolist(), "inputs": self.inputs.tolist()}
            (folder / VOCABULARY).write_text(json.dumps(maps), encoding="utf-8")


def whole(size: int) -> Vocabulary:
    return Vocabulary(torch.arange(size), torch.arange(size))


def frequent(
    texts: Iterable[Sequence[int]], always: Iterable[int], size: int, embeddings: Tensor
) -> Vocabulary:
    """The `size` most frequent tokens of some texts, and for each other token the nearest of them.

    Args:
        always: tokens that are kept however rare: those that end a text.
        embeddings: [target's tokens, width] of the target; near is a small angle.
    """
    counts = Counter(token for text in texts for token in text)
    kept = dict.fromkeys(always)
    kept.update(dict.fromkeys(token for token, _ in counts.most_common()))
    kept.update(dict.fromkeys(range(len(embeddings))))  # few texts: fill up, low ids first
    outputs = torch.tensor(sorted(list(kept)[:size]))
    directions = torch.nn.functional.normalize(embeddings.float(), dim=1)
    parts = torch.split(directions, 2048)  # all likenesses at once would be gigabytes
    inputs = torch.cat([(part @ directions[outputs].T).argmax(1) for part in parts])
    inputs[outputs] = torch.arange(len(outputs))
    return Vocabulary(outputs, inputs)
