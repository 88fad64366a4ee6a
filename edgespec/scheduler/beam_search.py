"""Beam search over the target: the texts with the largest probabilities, as far as k beams see.

The beams are sequences that share calls. As in transformers, a text's score is its log-probability
divided by a power of its length, 2 k continuations are looked at in each step, and one that ends a
text counts only among the best k of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec.core.logit_edits import LogitEdit
from edgespec.core.requests import Score
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.scheduler.shared_calls import SequenceBatch, SequenceModel

__all__ = ["Beam", "EarlyStopping", "beam_search"]

# True: with k ended texts. False: when the best unended one, as it is, cannot come among them.
# "never": when it could not whatever follows.
EarlyStopping = bool | Literal["never"]


class Beam(NamedTuple):
    """A text and what it is worth.

    Attributes:
        tokens: generated ones, an end-of-text token included.
        logprob: log of its probability.
        score: logprob / tokens^length_penalty.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float


class _Running(NamedTuple):
    """A beam that has not ended; `sequence` has all its tokens but the last in its cache."""

    sequence: SequenceModel
    tokens: tuple[int, ...]
    logprob: float


@dataclass
class _Ended:
    """The best texts that have ended, at most so many."""

    most: int
    length_penalty: float
    beams: list[Beam] = field(default_factory=list)

    def add(self, tokens: tuple[int, ...], logprob: float) -> None:
        beam = Beam(tokens, logprob, self.score(logprob, len(tokens)))
        self.beams = sorted([*self.beams, beam], key=lambda beam: -beam.score)[: self.most]

    def score(self, logprob: float, length: int) -> float:
        return float(logprob / length**self.length_penalty)

    def is_final(self, best: float, length: int, longest: int, early: EarlyStopping) -> bool:
        """Whether the search ends, when the best unended text has this log-probability."""
        if len(self.beams) < self.most:
            return False
        if early is True:
            return True
        at = longest if early == "never" and self.length_penalty > 0 else length
        return self.beams[-1].score >= self.score(best, at)


def beam_search(
    batch: SequenceBatch,
    prompt: Sequence[int],
    *,
    beams: int,
    max_new_tokens: int,
    last_tokens: Collection[int],
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    edit: LogitEdit | None = None,
) -> list[Beam]:
    """The best texts, the best first.

    Args:
        batch: of at least `beams` sequences of the target.
        last_tokens: those that end a text.
        edit: changes logits by the text so far.

    Raises:
        UsageError: the prompt is empty or does not fit the cache.
    """
    first, *others = batch.sequences[:beams]
    pending = first.prefill(prompt)
    longest = min(max_new_tokens, first.capacity - first.length)
    ended = _Ended(beams, length_penalty)
    running = [_Running(first, (), 0.0)]
    free = list(others)
    for length in range(1, longest + 1):
        requests = [
            Score(beam.sequence, [beam.tokens[-1] if beam.tokens else pending]) for beam in running
        ]
        rows = [answer[0] for answer in batch.compute(requests)]
        best = _best(running, rows, 2 * beams, edit)
        chosen: list[tuple[int, int, float]] = []
        for rank, (parent, token, logprob) in enumerate(best):
            if token not in last_tokens:
                chosen.append((parent, token, logprob))
            elif rank < beams:
                ended.add((*running[parent].tokens, token), logprob)
        chosen = chosen[:beams]
        running, free = _continued(running, chosen, free)
        if not running or ended.is_final(running[0].logprob, length, longest, early_stopping):
            break
    else:
        for beam in running:
            ended.add(beam.tokens, beam.logprob)
    return ended.beams


def _best(
    running: Sequence[_Running],
    rows: Sequence[npt.NDArray[np.float32]],
    count: int,
    edit: LogitEdit | None,
) -> list[tuple[int, int, float]]:
    """The most probable continuations of all beams: number of the beam, token, log-probability."""
    found = []
    weights = np.empty_like(rows[0])
    for number, (beam, logits) in enumerate(zip(running, rows, strict=True)):
        row = logits if edit is None else edit(logits, beam.tokens)
        ops = vocab_ops_for(row)
        highest = float(row[ops.arg_max(row)])
        total = highest + math.log(ops.exp_weights(row, highest, 1.0, weights))
        most = min(count, len(row))
        tokens = np.argpartition(row, -most)[-most:]
        found += [
            (number, token, beam.logprob + logit - total)
            for token, logit in zip(tokens.tolist(), row[tokens].tolist(), strict=True)
        ]
    found = [continuation for continuation in found if continuation[2] > -math.inf]
    return sorted(found, key=lambda one: (-one[2], one[0], one[1]))[:count]


def _continued(
    running: Sequence[_Running],
    chosen: Sequence[tuple[int, int, float]],
    free: Sequence[SequenceModel],
) -> tuple[list[_Running], list[SequenceModel]]:
    """The beams of the next step, and the sequences that none of them has.

    The first continuation of a beam keeps its cache, others copy it.
    """
    kept = {parent for parent, _, _ in chosen}
    unused = [*free, *(beam.sequence for number, beam in enumerate(running) if number not in kept)]
    continued = []
    for parent, token, logprob in chosen:
        beam = running[parent]
        sequence = beam.sequence
        if parent in kept:
            kept.remove(parent)
        else:
            sequence = unused.pop()
            sequence.copy(beam.sequence, beam.sequence.length)
        continued.append(_Running(sequence, (*beam.tokens, token), logprob))
    return continued, unused
