"""Maps token ids between a target and its draft.

A draft may know only some of its target's tokens: the first ones, the frequent ones, or those that
its own tokenizer has too. It never proposes the others, which does not change the text's
distribution.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import Manifest
from edgespec.core.array_types import LegalRow, VocabRow
from edgespec.core.distribution import Distribution, Processor
from edgespec.drafters.token_intersection import TokenIntersection
from edgespec.errors import EdgespecError

__all__ = ["SharedTokens", "SomeTokens", "Vocabulary", "open_vocabulary", "read_vocabulary"]

TokenSequence = Sequence[int] | npt.NDArray[np.int64]


@runtime_checkable
class Vocabulary(Protocol):
    """Maps token ids between target and draft."""

    def to_draft_ids(self, tokens: TokenSequence) -> list[int]:
        """Token ids of the draft for token ids of the target, at least one for each, and exactly
        one for a token that the draft may propose. A token that the draft lacks is replaced by
        others: the prediction gets worse, not the text."""
        ...

    def to_target_ids(self, tokens: TokenSequence) -> list[int]:
        """Token ids of the target for token ids of the draft."""
        ...

    def prompt(
        self, tokens: Sequence[int], assistant_spans: Sequence[range] | None
    ) -> tuple[list[int], Sequence[range] | None]:
        """A prompt and the positions of its earlier answers, as in `Model.prefill`: of the draft,
        for those of the target."""
        ...

    def distribution(self, process: Processor, logits: VocabRow) -> Distribution:
        """q over token ids of the target, from one row of the draft's logits ([vocabulary])."""
        ...

    def covers(self, size: int) -> bool:
        """Whether all `size` tokens of the draft are tokens of the target."""
        ...

    def legal(self, allowed: LegalRow, size: int) -> LegalRow:
        """Which of the draft's `size` tokens the draft may propose ([size]), where these of the
        target's are allowed ([target vocabulary])."""
        ...


class SharedTokens:
    """Both models use the same token ids; one of them may have more.

    Args:
        width: number of tokens that both have.
    """

    def __init__(self, width: int) -> None:
        self._width = width

    def to_draft_ids(self, tokens: TokenSequence) -> list[int]:
        return [token if token < self._width else 0 for token in tokens]

    def to_target_ids(self, tokens: TokenSequence) -> list[int]:
        return self.to_draft_ids(tokens)

    def prompt(
        self, tokens: Sequence[int], assistant_spans: Sequence[range] | None
    ) -> tuple[list[int], Sequence[range] | None]:
        return self.to_draft_ids(tokens), assistant_spans

    def distribution(self, process: Processor, logits: VocabRow) -> Distribution:
        return process(logits[: self._width])

    def covers(self, size: int) -> bool:
        return size <= self._width

    def legal(self, allowed: LegalRow, size: int) -> LegalRow:
        row = np.zeros(size, np.bool_)
        row[: self._width] = allowed[: self._width]
        return row


class SomeTokens:
    """The draft has some of the target's tokens, under its own ids.

    Args:
        input_size: tokens that the draft can read; None: those that it may propose.

    Attributes:
        outputs: [draft vocabulary] the target's id of each draft token, increasing.
        inputs: [target vocabulary] what the draft reads for each target token.

    Raises:
        ValueError: the two do not fit each other.
    """

    def __init__(
        self, outputs: Sequence[int], inputs: Sequence[int], input_size: int | None = None
    ) -> None:
        self.outputs = np.array(outputs, np.int64)
        self.inputs = np.array(inputs, np.int64)
        size = len(self.outputs)
        readable = size if input_size is None else input_size
        if not size or self.outputs[0] < 0 or np.any(np.diff(self.outputs) <= 0):
            raise ValueError("outputs do not increase")
        if self.outputs[-1] >= len(self.inputs):
            raise ValueError("outputs name tokens that the target lacks")
        if self.inputs.min() < 0 or self.inputs.max() >= readable:
            raise ValueError("inputs name tokens that the draft lacks")

    def to_draft_ids(self, tokens: TokenSequence) -> list[int]:
        ids: list[int] = self.inputs.take(tokens).tolist()
        return ids

    def to_target_ids(self, tokens: TokenSequence) -> list[int]:
        ids: list[int] = self.outputs.take(tokens).tolist()
        return ids

    def prompt(
        self, tokens: Sequence[int], assistant_spans: Sequence[range] | None
    ) -> tuple[list[int], Sequence[range] | None]:
        return self.to_draft_ids(tokens), assistant_spans

    def distribution(self, process: Processor, logits: VocabRow) -> Distribution:
        q = process(logits)
        whole = len(q.tokens) == len(self.outputs)
        return Distribution(self.outputs if whole else self.outputs[q.tokens], q.probabilities)

    def covers(self, size: int) -> bool:
        return size == len(self.outputs)

    def legal(self, allowed: LegalRow, size: int) -> LegalRow:
        return allowed[self.outputs]


def open_vocabulary(folder: Path, manifest: Manifest) -> Vocabulary:
    """The vocabulary of an exported pair's draft."""
    target, draft = manifest.target, manifest.draft
    if draft is None or draft.vocabulary is None:
        return SharedTokens(min(model.vocab_size for model in (target, draft) if model))
    file = folder / draft.vocabulary
    return read_vocabulary(file, target.vocab_size, draft.vocab_size, draft.input_vocab_size)


def read_vocabulary(
    file: Path, target_size: int, draft_size: int, input_size: int | None = None
) -> Vocabulary:
    """Reads {"outputs", "inputs"}, the arguments of `SomeTokens`, or {"common", "spellings",
    "begin"}, those of `TokenIntersection`.

    Args:
        input_size: as of `SomeTokens`.

    Raises:
        EdgespecError: the file is damaged, or belongs to other models.
    """
    try:
        maps = json.loads(file.read_text(encoding="utf-8"))
        if "common" in maps:
            sizes = len(maps["spellings"]), draft_size
            vocabulary: Vocabulary = TokenIntersection(
                maps["common"], maps["spellings"], maps["begin"], draft_size
            )
        else:
            sizes = len(maps["inputs"]), len(maps["outputs"])
            vocabulary = SomeTokens(maps["outputs"], maps["inputs"], input_size)
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise EdgespecError(f"{file} is damaged ({error}); make the draft again") from None
    if sizes != (target_size, draft_size):
        raise EdgespecError(
            f"{file} is for a target of {sizes[0]} and a draft of {sizes[1]} tokens, and "
            f"these have {target_size} and {draft_size}; pair the draft with its own target"
        )
    return vocabulary
