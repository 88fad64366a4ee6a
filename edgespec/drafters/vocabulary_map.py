"""Which of the target's tokens a draft has, and under which numbers.

A draft may know fewer tokens than its target: the first ones, or the frequent ones. What it cannot
say it never proposes, and the distribution of the target stays what it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import Manifest
from edgespec.core.distribution import Distribution, Process
from edgespec.errors import EdgespecError

__all__ = ["SharedTokens", "SomeTokens", "Vocabulary", "open_vocabulary", "read_vocabulary"]


class Vocabulary(Protocol):
    """Between the target's numbers of tokens and the draft's."""

    def to_draft_ids(self, tokens: Sequence[int]) -> list[int]:
        """The target's tokens as the draft reads them. One that it lacks is shown as another: a
        poor guess follows, and a guess is all it is."""
        ...

    def to_target_ids(self, tokens: Sequence[int]) -> list[int]:
        """The draft's tokens as the target numbers them."""
        ...

    def distribution(self, process: Process, logits: npt.NDArray[np.float32]) -> Distribution:
        """q over the target's tokens, from one row of the draft's logits."""
        ...

    def covers(self, size: int) -> bool:
        """Whether all tokens of a draft that has so many are the target's, too."""
        ...


class SharedTokens:
    """Both models number their tokens alike; one of them may have more.

    Args:
        width: how many tokens both have.
    """

    def __init__(self, width: int) -> None:
        self._width = width

    def to_draft_ids(self, tokens: Sequence[int]) -> list[int]:
        return [token if token < self._width else 0 for token in tokens]

    def to_target_ids(self, tokens: Sequence[int]) -> list[int]:
        return self.to_draft_ids(tokens)

    def distribution(self, process: Process, logits: npt.NDArray[np.float32]) -> Distribution:
        return process(logits[: self._width])

    def covers(self, size: int) -> bool:
        return size <= self._width


class SomeTokens:
    """The draft has some of the target's tokens, under numbers of its own.

    Attributes:
        outputs: [draft's tokens] which of the target's tokens each is, increasing.
        inputs: [target's tokens] which of the draft's tokens stands for each.

    Raises:
        ValueError: the two do not belong together.
    """

    def __init__(self, outputs: Sequence[int], inputs: Sequence[int]) -> None:
        self.outputs = np.array(outputs, np.int64)
        self.inputs = np.array(inputs, np.int64)
        size = len(self.outputs)
        if not size or self.outputs[0] < 0 or np.any(np.diff(self.outputs) <= 0):
            raise ValueError("outputs do not increase")
        if self.outputs[-1] >= len(self.inputs):
            raise ValueError("outputs name tokens that the target lacks")
        if self.inputs.min() < 0 or self.inputs.max() >= size:
            raise ValueError("inputs name tokens that the draft lacks")

    def to_draft_ids(self, tokens: Sequence[int]) -> list[int]:
        to_draft_ids: list[int] = self.inputs.take(tokens).tolist()
        return to_draft_ids

    def to_target_ids(self, tokens: Sequence[int]) -> list[int]:
        to_target_ids: list[int] = self.outputs.take(tokens).tolist()
        return to_target_ids

    def distribution(self, process: Process, logits: npt.NDArray[np.float32]) -> Distribution:
        q = process(logits)
        every = len(q.tokens) == len(self.outputs)
        return Distribution(self.outputs if every else self.outputs[q.tokens], q.probabilities)

    def covers(self, size: int) -> bool:
        return size == len(self.outputs)


def open_vocabulary(folder: Path, manifest: Manifest) -> Vocabulary:
    """The vocabulary of an exported pair's draft."""
    target, draft = manifest.target, manifest.draft
    if draft is None or draft.vocabulary is None:
        return SharedTokens(min(model.vocab_size for model in (target, draft) if model))
    return read_vocabulary(folder / draft.vocabulary, target.vocab_size, draft.vocab_size)


def read_vocabulary(file: Path, target_size: int, draft_size: int) -> SomeTokens:
    """Reads {"outputs": […], "inputs": […]}, the arguments of `SomeTokens`.

    Raises:
        EdgespecError: it is damaged, or belongs to other models.
    """
    try:
        maps = json.loads(file.read_text(encoding="utf-8"))
        outputs, inputs = maps["outputs"], maps["inputs"]
        vocabulary = SomeTokens(outputs, inputs)
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise EdgespecError(f"{file} is damaged ({error}); make the draft again") from None
    if (len(outputs), len(inputs)) != (draft_size, target_size):
        raise EdgespecError(
            f"{file} is for a target of {len(inputs)} and a draft of {len(outputs)} tokens, and "
            f"these have {target_size} and {draft_size}; pair the draft with its own target"
        )
    return vocabulary
