"""Logits that another program computed, compared with this project's own scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgespec.pair.opening.variant_quality import PROMPT, SCORED, Sample


class Recorded:
    """Logits that were computed elsewhere, replayed in the order in which they are asked for."""

    def __init__(self, logits: npt.NDArray[np.float32]) -> None:
        self._logits = logits
        self._next = 0

    def prefill(self, prompt: Sequence[int]) -> int:
        """Passes over the prompt's rows but the last, which belongs to the pending token."""
        self._next += len(prompt) - 1
        return prompt[-1]

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        begin, self._next = self._next, self._next + len(tokens)
        return self._logits[begin : self._next]


def scored_texts(samples: Sequence[Sample]) -> list[list[int]]:
    """The tokens after which each sample needs logits, and those before them."""
    return [prompt + text[:-1] for prompt, text in samples]


def pieces(tokens: list[int]) -> list[list[int]]:
    """Whole samples, one after the other."""
    length = PROMPT + SCORED
    return [tokens[at : at + length] for at in range(0, len(tokens) - length + 1, length)]
