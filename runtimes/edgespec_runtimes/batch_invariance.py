"""Measures whether sequences that share calls have the bits that each has alone."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec.core.model import Model
from edgespec.core.requests import Read, Score
from edgespec.scheduler.shared_calls import SequenceModel, SharedModel

__all__ = ["Passage", "is_batch_invariant"]

# Tokens that a sequence has in each call: kept, and rejected afterwards.
CALLS = ((3, 2), (1, 0), (5, 4), (2, 0), (6, 1))
READ = 40  # rows of a prompt in each call, one sequence's that is only read


class Passage(NamedTuple):
    """A sequence of 17 tokens and what precedes it.

    Attributes:
        prompt: for `Model.prefill`; its last token is not scored.
        before: tokens that are scored after it; none of a decoder-only model.
        logits: [tokens, vocabulary] after each token of the sequence, as a call of it alone has
            them.
    """

    prompt: Sequence[int]
    before: Sequence[int]
    sequence: Sequence[int]
    logits: npt.NDArray[np.float32]


def is_batch_invariant(model: Model, passages: Sequence[Passage]) -> bool:
    """Whether the logits of all passages are bitwise the same in calls that they share with each
    other and with a prompt that is read; false if the model shares no calls."""
    if not (isinstance(model, SharedModel) and model.shares_calls):
        return False
    batch = model.make_batch(len(passages) + 1, model.capacity)
    *scored, read = batch.sequences
    read.prefill(passages[0].prompt)  # an encoder-decoder needs a source
    _read_prompts(scored, passages)
    for sequence, passage in zip(scored, passages, strict=True):
        for start in range(0, len(passage.before), READ):
            batch.compute([Score(sequence, passage.before[start : start + READ])])
    generator = np.random.default_rng(2)
    found: list[list[npt.NDArray[np.float32]]] = [[] for _ in passages]
    for shift in range(len(CALLS)):
        requests: list[Read | Score] = []
        counts = []
        for number, (sequence, passage) in enumerate(zip(scored, passages, strict=True)):
            kept, rejected = CALLS[(shift + number) % len(CALLS)]
            tokens = passage.sequence[len(found[number]) :][:kept]
            counts.append(len(tokens))
            requests.append(Score(sequence, [*tokens, *_random(generator, model, rejected)]))
        read.rewind(0)
        requests.insert(shift % len(requests), Read(read, _random(generator, model, READ)))
        answers = [answer for answer in batch.compute(requests) if answer is not None]
        for number, (logits, kept) in enumerate(zip(answers, counts, strict=True)):
            found[number] += [row.copy() for row in logits[:kept]]
            scored[number].rewind(scored[number].length - len(logits) + kept)
    return all(
        np.array_equal(np.array(rows), passage.logits[: len(rows)])
        for rows, passage in zip(found, passages, strict=True)
    )


def _read_prompts(sequences: Sequence[SequenceModel], passages: Sequence[Passage]) -> None:
    """Reads all prompts at once, a piece of each in a call."""
    readers: list[Generator[Read, None, int]] = [
        sequence.reading(passage.prompt)
        for sequence, passage in zip(sequences, passages, strict=True)
    ]
    while readers:
        pieces: list[Any] = [next(reader, None) for reader in readers]
        readers = [reader for reader, piece in zip(readers, pieces, strict=True) if piece]
        requested = [piece for piece in pieces if piece]
        if requested:
            requested[0].model.batch.compute(requested)


def _random(generator: np.random.Generator, model: Model, count: int) -> list[int]:
    return [int(token) for token in generator.integers(model.vocab_size, size=count)]
