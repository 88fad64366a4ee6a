"""Measures row invariance: whether a position's logits depend on what else is in the call.

Plain decoding scores one new position per call, verification several. The two are certain to give
the same sequence only if a position's logits are equal in both: bit by bit, never by a tolerance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.core.model import Candidate, CandidateModel, Model, candidate_model_of
from edgespec.errors import EdgespecError
from edgespec_runtimes.batch_invariance import Passage, is_batch_invariant
from edgespec_runtimes.machine import Machine
from edgespec_runtimes.measuring_progress import MeasuringProgress

__all__ = [
    "CHECK",
    "FEW_STARTS",
    "LONG",
    "MEASURED_CAPACITY",
    "POSITIONS_AFTER_START",
    "ROUNDS",
    "SHORT",
    "CallPlan",
    "MeasuredCall",
    "measure_row_invariance",
    "passages",
    "scored_in_calls",
    "static_plan",
]

# Cached positions before a sequence. Kernels may change with the length of the cache, or treat the
# end
# of a block of positions differently: the sequences cross 32, 64 and 128, and these numbers differ
# modulo 4 and 8.
STARTS = (1, 20, 58, 119)
FEW_STARTS = (20, 1)  # for a first answer of a slow device: the first that fits
POSITIONS_AFTER_START = 2 * MAX_ROWS
MOST_SINGLE_ROWS = 8  # calls of one row after each other: every residue modulo 8
MIN_ROWS_WITH_CANDIDATES = 3  # two tokens, and a candidate for the second
MEASURED_CAPACITY = STARTS[-1] + POSITIONS_AFTER_START  # room for all starts


class MeasuredCall(NamedTuple):
    """A call with the next tokens of a sequence, and random ones that are rejected afterwards."""

    kept: int
    rejected: int = 0


Walk = tuple[
    MeasuredCall, ...
]  # the calls that score a sequence, or its beginning, one after the other


@dataclass(frozen=True)
class CallPlan:
    """Which calls are compared with one long call, for each start.

    Attributes:
        walks: calls that score a sequence, or its beginning. Those of one row have walks of their
            own: what they leave in the cache may differ without harm.
        candidate_walks: rows of the calls that score the sequence with candidates, repeated until
            its end.
        rows: of the long call.
        starts: cached positions before a sequence, in turn; those that fit.
    """

    walks: tuple[Walk, ...]
    candidate_walks: tuple[tuple[int, ...], ...]
    rows: int = MAX_ROWS
    starts: tuple[int, ...] = STARTS

    @property
    def calls(self) -> int:
        """How many calls it makes, about: a prompt, the long call and the walks for each start."""
        return len(self.starts) * (2 + sum(len(walk) for walk in self.walks))


def _calls_of(rows: int, rejected: int = 0, count: int = MAX_ROWS) -> Walk:
    """Calls that keep `rows` of `count` tokens. The last may keep fewer, and is filled up: all have
    one size."""
    kept = [min(rows, count - start) for start in range(0, count, rows)]
    return tuple(MeasuredCall(count, rows + rejected - count) for count in kept)


def _split_at(rows: int) -> Walk:
    """Two calls, the second one with at least two rows."""
    rest = MAX_ROWS - rows
    return MeasuredCall(rows), MeasuredCall(rest, int(rest == 1))


# Rounds that accept 0 to 4 tokens of 1 to 16: what a call rejects must leave no trace.
ROUNDS = (
    MeasuredCall(1, 16),
    MeasuredCall(2, 3),
    MeasuredCall(3, 9),
    MeasuredCall(4, 1),
    MeasuredCall(5, 7),
    MeasuredCall(2, 15),
)
# Single rows up to every residue modulo 8; every other number twice for each start: at the start
# and further on.
SHORT = CallPlan(
    walks=((MeasuredCall(1),) * MOST_SINGLE_ROWS, *map(_split_at, range(2, MAX_ROWS)), ROUNDS),
    candidate_walks=((3, 17, 9, 4, 13), (6, 5, 11, 15, 8)),
)
# Every number of rows at every distance from the start, with and without rejected tokens.
LONG = CallPlan(
    walks=(
        *map(_calls_of, range(1, MAX_ROWS)),
        *(_calls_of(rows, MAX_ROWS - rows) for rows in range(1, MAX_ROWS)),
    ),
    candidate_walks=tuple((rows,) for rows in range(MIN_ROWS_WITH_CANDIDATES, MAX_ROWS + 1)),
)
# Where the logits were measured already, on another machine: do kernels have the same bits here?
CHECK = CallPlan(
    walks=(
        (MeasuredCall(2, 3), MeasuredCall(1), MeasuredCall(3), MeasuredCall(5, 2), MeasuredCall(6)),
    ),
    candidate_walks=((7,),),
)


def static_plan(widths: Sequence[int], capacity: int, *, long: bool = False) -> CallPlan:
    """The plan for graphs with fixed shapes: each is called full, with a row of padding, and with
    rows that are rejected, and compared with the widest.

    A graph is one program, which reads the whole cache however full it is. So one start is enough
    for a first answer: about 20 calls of the usual widths, a minute at 1.3 s with those that
    compare it with the processor.

    Args:
        widths: rows of each graph, increasing.
        capacity: positions of the cache.
        long: begin at all starts.
    """
    widest = widths[-1]
    full = [_calls_of(rows, count=widest) for rows in widths]
    padded = [_calls_of(rows - 1, count=widest) for rows in widths if rows > 2]
    rejecting = _calls_of(2, widest - 2, widest)
    single = (MeasuredCall(1),) * min(widest, MOST_SINGLE_ROWS)
    starts = [start for start in FEW_STARTS if start + POSITIONS_AFTER_START <= capacity]
    few = (starts or FEW_STARTS[-1:])[0]
    return CallPlan((single, *full, *padded, rejecting), (), widest, STARTS if long else (few,))


def measure_row_invariance(model: Model, machine: Machine, plan: CallPlan = SHORT) -> RowInvariance:
    """Scores the same sequences in calls of 1, 2 … `plan.rows` rows; compares logits bit by bit.

    Calls also have rows that are rejected afterwards, as verification does, so all later logits
    check the cache that they leave. If the model scores candidates, the sequences are also scored
    as candidates.

    Args:
        model: must make calls with one row when asked for one position.
        machine: the one that the model runs on.
        plan: which calls are compared.

    Raises:
        EdgespecError: a logit is NaN or infinite, or the cache is too small to measure.
    """
    generator = np.random.default_rng(1)
    candidate_model = candidate_model_of(model)
    candidates = candidate_model is not None
    measured: list[Passage] = []
    is_row_invariant = one_row_is_equal = True
    one_row_difference = 0.0
    logits_digest = hashlib.sha256()
    progress = MeasuringProgress(plan.calls)
    for passage in passages(model, plan.starts, plan.rows):
        measured.append(passage)
        progress.call()
        sequence, expected = passage.sequence, passage.logits
        logits_digest.update(expected.tobytes())
        start = model.length
        for walk in plan.walks:
            model.rewind(start)
            logits = scored_in_calls(model, sequence, walk, generator, progress)
            wanted = expected[: len(logits)]
            equal = bool(np.array_equal(logits, wanted))
            if walk[0] == MeasuredCall(1):
                one_row_is_equal &= equal
                difference = float(np.abs(logits - wanted).max())
                one_row_difference = max(one_row_difference, difference)
            else:
                is_row_invariant &= equal
        if candidate_model is not None:
            for rows in plan.candidate_walks:
                model.rewind(start)
                logits = _scored_as_candidates(candidate_model, sequence, rows, generator)
                candidates &= bool(np.array_equal(logits, expected[: len(logits)]))
    return RowInvariance(
        is_row_invariant=is_row_invariant,
        min_rows=1 if one_row_is_equal else 2,
        max_rows=plan.rows,
        one_row_difference=one_row_difference,
        measured_on=str(machine),
        machine=machine.digest,
        candidates=candidates,
        texts=is_row_invariant and one_row_is_equal and is_batch_invariant(model, measured),
        kernels=machine.kernels,
        logits=logits_digest.hexdigest(),
    )


def passages(model: Model, starts: Sequence[int], rows: int = MAX_ROWS) -> Iterator[Passage]:
    """For each start that fits, a sequence of `rows` tokens whose logits are those of one call. The
    model's cache ends at the start."""
    least = min(starts) + POSITIONS_AFTER_START
    if model.capacity < least:
        raise EdgespecError(
            f"the cache holds {model.capacity} positions; row-invariance needs {least} to be "
            "measured"
        )
    starts = [start for start in starts if start + POSITIONS_AFTER_START <= model.capacity]
    generator = np.random.default_rng(0)
    for start in starts:
        prompt = _random_tokens(generator, model, start + 1)
        model.prefill(prompt)
        before: list[int] = []
        while model.length < start:  # an encoder took the prompt
            before += _random_tokens(generator, model, min(start - model.length, MAX_ROWS))
            model.score(before[model.length :])
        sequence = _random_tokens(generator, model, rows)
        expected = model.score(sequence).copy()
        if not np.isfinite(expected).all():
            raise EdgespecError(
                "the model's logits are not finite numbers: the checkpoint is damaged, or its "
                "weights do not fit the number format; download it again or choose another format"
            )
        model.rewind(start)
        yield Passage(prompt, before, sequence, expected)


def scored_in_calls(
    model: Model,
    sequence: Sequence[int],
    walk: Sequence[MeasuredCall],
    generator: np.random.Generator,
    progress: MeasuringProgress,
) -> npt.NDArray[np.float32]:
    """The logits after each token of `sequence` that the calls of `walk` keep."""
    logits: list[npt.NDArray[np.float32]] = []
    start = model.length
    end = 0
    for kept, rejected in walk:
        tokens = sequence[end : end + kept]
        after = _random_tokens(generator, model, rejected)
        logits.append(model.score([*tokens, *after])[:kept].copy())
        progress.call()
        end += kept
        model.rewind(start + end)
    return np.concatenate(logits)


def _scored_as_candidates(
    model: CandidateModel,
    sequence: Sequence[int],
    walk: tuple[int, ...],
    generator: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """The logits after each token of `sequence`, perhaps without the last, in calls with as many
    rows as `walk` says, again and again.

    A call has the next tokens of the sequence, then random tokens, then random candidates of which
    one is the token of the sequence that the random tokens replaced. This one is committed.
    """
    logits: list[npt.NDArray[np.float32]] = []
    for rows in cycle(walk):
        if len(logits) + 1 >= len(sequence):
            break
        ahead = sequence[len(logits) :]
        count = int(generator.integers(1, rows - 1))  # candidates
        tokens = rows - count
        parent = min(int(generator.integers(tokens - 1)), len(ahead) - 2)
        candidates = [
            Candidate(int(generator.integers(tokens - 1)), token)
            for token in _random_tokens(generator, model, count)
        ]
        right = int(generator.integers(count))
        candidates[right] = Candidate(parent, ahead[parent + 1])
        start = model.length
        rejected = _random_tokens(generator, model, tokens - parent - 1)
        scored = model.score([*ahead[: parent + 1], *rejected], candidates).copy()
        logits += [*scored[: parent + 1], scored[tokens + right]]
        model.rewind(start + parent + 1)
        model.commit_candidate(right)
    return np.array(logits)


def _random_tokens(generator: np.random.Generator, model: Model, count: int) -> list[int]:
    return [int(token) for token in generator.integers(model.vocab_size, size=count)]
