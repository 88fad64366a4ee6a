"""The draft's vocabulary, which may be only the frequent tokens of the target.

Half of a small model is its embedding and head, and rare tokens add little acceptance. The draft
can never propose a token that it lacks; the target's distribution stays exact.
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

__all__ = ["DraftVocabulary", "frequent_vocabulary", "full_vocabulary"]


@dataclass(frozen=True)
class DraftVocabulary:
    """Two maps between the target's token ids and the draft's.

    Attributes:
        outputs: [draft's tokens] the target's token id of each draft token, increasing.
        inputs: [target's tokens] the draft's token id of each target token: the same token, or the
            nearest one that the draft has.
    """

    outputs: Tensor
    inputs: Tensor

    def known(self, tokens: Tensor) -> Tensor:
        """Whether the draft has each of these target tokens (bool, shaped as `tokens`)."""
        return self.outputs[self.inputs[tokens]] == tokens

    def save(self, folder: Path) -> None:
        """Writes the file that an export reads, unless draft and target have the same tokens."""
        if len(self.outputs) < len(self.inputs):
            maps = {"outputs": self.outputs.tolist(), "inputs": self.inputs.tolist()}
            text = json.dumps(maps, separators=(",", ":"))
            (folder / VOCABULARY).write_text(text, encoding="utf-8")


def full_vocabulary(size: int) -> DraftVocabulary:
    """All of the target's `size` tokens."""
    return DraftVocabulary(torch.arange(size), torch.arange(size))


def frequent_vocabulary(
    texts: Iterable[Sequence[int]], always: Iterable[int], size: int, embeddings: Tensor
) -> DraftVocabulary:
    """The `size` most frequent tokens of some texts.

    Args:
        always: tokens that are included however rare they are: those that end a text.
        embeddings: [target's tokens, width] of the target, on any device; the maps are on the CPU.
            A token that the draft lacks maps to the token with the smallest angle between the
            embeddings.
    """
    counts = Counter(token for text in texts for token in text)
    order = dict.fromkeys(always)
    order.update(dict.fromkeys(token for token, _ in counts.most_common()))
    order.update(dict.fromkeys(range(len(embeddings))))  # if the texts have too few: low ids first
    outputs = torch.tensor(sorted(list(order)[:size]))
    directions = torch.nn.functional.normalize(embeddings[outputs].float(), dim=1).T
    parts = torch.split(embeddings, 2048)  # all in float32, or all similarities: gigabytes
    inputs = torch.cat([(part.float() @ directions).argmax(1) for part in parts]).cpu()
    inputs[outputs] = torch.arange(len(outputs))
    return DraftVocabulary(outputs, inputs)
