"""Measures row invariance: whether a position's logits depend on what else is in the call.

Plain decoding scores one new position per call, verification several. The two are certain to give
the same text only if a position's logits are equal in both: bit by bit, never by a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.manifest import RowInvariance
from edgespec.core.model import Candidate, CandidateModel, Model, candidate_model_of
from edgespec.errors import EdgespecError
from edgespec_runtimes.machine import Machine

__all__ = ["MEASURED_CAPACITY", "measure_row_invariance"]

PROMPT_LENGTHS = (2, 21, 55, 119)  # kernels may change with the cache: these cross 32, 64 and 128
POSITIONS_AFTER_PROMPT = 2 * MAX_ROWS
MIN_ROWS_WITH_CANDIDATES = 3  # two tokens, and a candidate for the second
MEASURED_CAPACITY = PROMPT_LENGTHS[-1] + POSITIONS_AFTER_PROMPT  # room for all prompt lengths


def measure_row_invariance(model: Model, machine: Machine) -> RowInvariance:
    """Scores the same texts in calls of 1, 2 … 17 rows and compares the logits bit by bit.

    Each call also has rows that are rejected afterwards, as verification does, so all later logits
    check the cache that it leaves. If the model scores candidates, the texts are also scored as
    candidates.

    Args:
        model: must make calls with one row when asked for one position.
        machine: the one that the model runs on.

    Raises:
        EdgespecError: a logit is NaN or infinite, or the cache is too small to measure.
    """
    generator = np.random.default_rng(0)
    equal = dict.fromkeys(range(1, MAX_ROWS), True)  # by rows of a call
    candidate_model = candidate_model_of(model)
    candidates = candidate_model is not None
    one_row_difference = 0.0
    for text, expected in _texts(model, generator):
        start = model.length
        for rows in equal:
            for rejected in (0, MAX_ROWS - rows):
                model.rewind(start)
                logits = _scored_in_calls(model, text, rows, rejected, generator)
                equal[rows] &= bool(np.array_equal(logits, expected))
                if rows == 1 and not rejected:
                    difference = float(np.abs(logits - expected).max())
                    one_row_difference = max(one_row_difference, difference)
        if candidate_model is not None and candidates:
            for rows in range(MIN_ROWS_WITH_CANDIDATES, MAX_ROWS + 1):
                model.rewind(start)
                logits = _scored_as_candidates(candidate_model, text, rows, generator)
                candidates &= bool(np.array_equal(logits, expected[: len(logits)]))
    return RowInvariance(
        is_row_invariant=all(equal[rows] for rows in equal if rows > 1),
        min_rows=1 if equal[1] else 2,
        max_rows=MAX_ROWS,
        one_row_difference=one_row_difference,
        measured_on=str(machine),
        machine=machine.digest,
        candidates=candidates,
    )


def _texts(
    model: Model, generator: np.random.Generator
) -> Iterator[tuple[list[int], npt.NDArray[np.float32]]]:
    """For each prompt length that fits: a text of `MAX_ROWS` tokens and the logits after each, as
    one call computes them. The model is at the end of the prompt."""
    lengths = [n for n in PROMPT_LENGTHS if n + POSITIONS_AFTER_PROMPT <= model.capacity]
    if not lengths:
        raise EdgespecError(
            f"the cache holds {model.capacity} positions; row-invariance needs "
            f"{PROMPT_LENGTHS[0] + POSITIONS_AFTER_PROMPT} to be measured"
        )
    for length in lengths:
        prompt = _random_tokens(generator, model, length)
        text = _random_tokens(generator, model, MAX_ROWS)
        model.prefill(prompt)
        start = model.length
        expected = model.score(text).copy()
        if not np.isfinite(expected).all():
            raise EdgespecError(
                "the model's logits are not finite numbers: the checkpoint is damaged, or its "
                "weights do not fit the number format; download it again or choose another format"
            )
        model.rewind(start)
        yield text, expected


def _scored_in_calls(
    model: Model, text: list[int], rows: int, rejected: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """The logits after each token of `text`, in calls with `rows` of its tokens, followed by
    `rejected` random ones."""
    logits = []
    for start in range(0, len(text), rows):
        piece = text[start : start + rows]
        length = model.length
        # The last piece may be shorter than `rows`: fill it up, so that all calls have one size.
        filler = text[: rows - len(piece)]
        after = _random_tokens(generator, model, rejected)
        logits.append(model.score([*piece, *filler, *after])[: len(piece)].copy())
        model.rewind(length + len(piece))
    return np.concatenate(logits)


def _scored_as_candidates(
    model: CandidateModel, text: list[int], rows: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """The logits after each token of `text`, perhaps without the last, in calls with `rows` rows.

    A call has the next tokens of the text, then random tokens, then random candidates of which one
    is the token of the text that the random tokens replaced. This one is committed.
    """
    logits: list[npt.NDArray[np.float32]] = []
    while len(logits) + 1 < len(text):
        ahead = text[len(logits) :]
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
