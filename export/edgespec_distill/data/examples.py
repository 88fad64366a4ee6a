"""What a draft is trained on: prompts and what the target wrote after them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["Example", "Text", "batches", "padded"]


@dataclass(frozen=True)
class Text:
    """A prompt and an output, in the target's tokens.

    Attributes:
        prompt: [n] tokens, at least one.
        output: [m] tokens, at least one; ends with an end-of-text token where the text ended.
    """

    prompt: Sequence[int]
    output: Sequence[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.output)


@dataclass(frozen=True)
class Example(Text):
    """A text and the target's distributions of its output.

    Attributes:
        tokens: [m, k] int32: the most probable tokens at each position.
        logs: [m, k] float16: their log-probabilities under the target at temperature 1.
    """

    tokens: Tensor
    logs: Tensor

    @property
    def is_greedy(self) -> bool:
        """Whether no token would have been more probable than any of the output's.

        Not whether each is the first of its `tokens`: in bf16 some are equal.
        """
        own = self.tokens == torch.tensor(self.output)[:, None]
        best = self.logs == self.logs[:, :1]
        return bool((own & best).any(1).all())


AnyText = TypeVar("AnyText", bound=Text)


def batches(
    texts: Sequence[AnyText], positions: int, probability: random.Random
) -> Iterator[list[AnyText]]:
    """Every text once, in batches of at most `positions` padded positions (or one text).

    Texts of similar length go together; the batches come in random order.
    """
    order = sorted(texts, key=lambda text: len(text) * probability.uniform(0.85, 1.15))
    groups: list[list[AnyText]] = []
    longest = 0
    for text in order:
        longest = max(longest, len(text))
        if not groups or longest * (len(groups[-1]) + 1) > positions:
            groups.append([])
            longest = len(text)
        groups[-1].append(text)
    probability.shuffle(groups)
    yield from groups


def padded(rows: Sequence[Sequence[int]], pad: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of tokens as one tensor [rows, longest], and where it holds tokens (bool)."""
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    real = torch.zeros(len(rows), longest, dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        real[index, : len(row)] = True
    return ids, real
