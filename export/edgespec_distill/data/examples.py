"""The training data of a draft: texts, and the target's distributions in them."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from edgespec.artifact.atomic_file import whole_file

__all__ = [
    "Example",
    "Text",
    "batches",
    "input_rows",
    "padded",
    "read_examples",
    "similar_lengths",
    "write_examples",
]


@dataclass(frozen=True)
class Text:
    """A prompt and an output, in the target's token ids.

    Attributes:
        prompt: [n] tokens, at least one.
        output: [m] tokens, at least one; ends with an end-of-text token if the text ended.
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
        log_probs: [m, k] float16: their log-probabilities under the target at temperature 1.
    """

    tokens: Tensor
    log_probs: Tensor

    @property
    def is_greedy(self) -> bool:
        """Whether every token of the output has the highest probability at its position.

        It need not be the first of `tokens`: in bf16 several tokens can be equally probable.
        """
        own = self.tokens == torch.tensor(self.output)[:, None]
        best = self.log_probs == self.log_probs[:, :1]
        return bool((own & best).any(1).all())


AnyText = TypeVar("AnyText", bound=Text)


def batches(
    texts: Sequence[AnyText], positions: int, rng: random.Random
) -> Iterator[list[AnyText]]:
    """Every text once, in batches of at most `positions` padded positions (or one text).

    Texts of similar length are in one batch; the batches come in random order.
    """
    order = sorted(texts, key=lambda text: len(text) * rng.uniform(0.85, 1.15))
    groups: list[list[AnyText]] = []
    longest = 0
    for text in order:
        longest = max(longest, len(text))
        if not groups or longest * (len(groups[-1]) + 1) > positions:
            groups.append([])
            longest = len(text)
        groups[-1].append(text)
    rng.shuffle(groups)
    yield from groups


def similar_lengths(
    prompts: Sequence[Sequence[int]], new_tokens: int, positions: int, rows: int = sys.maxsize
) -> Iterator[list[Sequence[int]]]:
    """Prompts of similar length, as many as are continued at once: at most `rows`, whose texts have
    at most `positions` together, or there is one. The longest come first."""
    order = sorted(prompts, key=len)
    while order:
        count = max(1, min(rows, positions // (len(order[-1]) + new_tokens)))
        yield order[-count:]
        del order[-count:]


def input_rows(texts: Sequence[Text]) -> list[list[int]]:
    """The tokens that a decoder-only model reads of texts: all but the last."""
    return [[*text.prompt, *text.output[:-1]] for text in texts]


def padded(rows: Sequence[Sequence[int]], pad: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of tokens as one tensor [rows, longest], and a mask: bool, True for tokens."""
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    real = torch.zeros(len(rows), longest, dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        real[index, : len(row)] = True
    return ids, real


def write_examples(examples: Sequence[Example], file: Path) -> None:
    """Writes examples to a file, which appears complete or not at all."""
    rows = [(list(e.prompt), list(e.output), e.tokens, e.log_probs) for e in examples]
    with whole_file(file) as aside:
        torch.save(rows, aside)


def read_examples(file: Path) -> list[Example]:
    """The examples that `write_examples` wrote; their tensors are mapped from the file, and a token
    of their texts takes 4 bytes (in a list it takes 36)."""
    return [
        Example(array("i", prompt), array("i", output), tokens, log_probs)
        for prompt, output, tokens, log_probs in torch.load(file, weights_only=True, mmap=True)
    ]
