"""Whether a model is the same model when it verifies: measured bit by bit, never by a tolerance.

Plain decoding scores one new position a call and verification several. The two agree for certain
only if a position's logits do not depend on what else is in the call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.manifest import RowInvariance
from edgespec.core.model import Candidate, CandidateModel, Model, candidate_model_of
from edgespec.errors import EdgespecError
from edgespec_runtimes.machine import Machine

__all__ = ["LONGEST", "measure_row_invariance"]

PROMPT_LENGTHS = (2, 21, 55, 119)  # kernels may change with the cache: cross 32, 64 and 128
BEHIND = 2 * MAX_ROWS  # positions that are needed behind a prompt
FEWEST_WITH_CANDIDATES = 3  # two in a line, one beside the second
LONGEST = PROMPT_LENGTHS[-1] + BEHIND


def measure_row_invariance(model: Model, machine: Machine) -> RowInvariance:
    """Scores the same texts in calls of 1, 2 … 17 positions and compares the logits bitwise.

    Each call also carries positions that are rejected afterwards, as verification does, so the
    cache that it leaves is compared by all later logits. Where the model takes candidates, the texts
    are scored as such, too.

    Args:
        model: must make one-position calls when asked for one position.
        machine: the one that the model runs on.

    Raises:
        EdgespecError: a logit is NaN or infinite.
    """
    generator = np.random.default_rng(0)
    equal = dict.fromkeys(range(1, MAX_ROWS), True)
    candidate_model = candidate_model_of(model)
    candidates = candidate_model is not None
    one_row_difference = 0.0
    lengths = [length for length in PROMPT_LENGTHS if length + BEHIND <= model.capacity]
    if not lengths:
        raise EdgespecError(
            f"the cache holds {model.capacity} positions; row-invariance needs "
            f"{PROMPT_LENGTHS[0] + BEHIND} to be measured"
        )
    for length in lengths:
        prompt = _tokens(generator, model, length)
        text = _tokens(generator, model, MAX_ROWS)
        model.prefill(prompt)
        start = model.length
        expected = model.score(text).copy()
        if not np.isfinite(expected).all():
            raise EdgespecError(
                "the model's logits are not finite numbers: the checkpoint is damaged, or its "
                "weights do not fit the number format; download it again or choose another format"
            )
        for rows in equal:
            for junk in (0, MAX_ROWS - rows):
                model.rewind(start)
                logits = _in_calls_of(model, text, rows, _junk(generator, model, junk))
                equal[rows] &= bool(np.array_equal(logits, expected))
                if rows == 1 and not junk:
                    difference = float(np.abs(logits - expected).max())
                    one_row_difference = max(one_row_difference, difference)
        if candidate_model is not None and candidates:
            for rows in range(FEWEST_WITH_CANDIDATES, MAX_ROWS + 1):
                model.rewind(start)
                logits = _with_candidates(candidate_model, text, rows, generator)
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


def _in_calls_of(
    model: Model, text: list[int], rows: int, junk: Callable[[], list[int]]
) -> npt.NDArray[np.float32]:
    """The logits after each token of `text`: `rows` positions a call, and junk behind them."""
    logits = []
    for start in range(0, len(text), rows):
        piece = text[start : start + rows]
        length = model.length
        # The last piece may be shorter than `rows`: fill it up, so that every call has this size.
        filler = text[: rows - len(piece)]
        logits.append(model.score([*piece, *filler, *junk()])[: len(piece)].copy())
        model.rewind(length + len(piece))
    return np.concatenate(logits)


def _with_candidates(
    model: CandidateModel, text: list[int], rows: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """The logits after each token of `text`, maybe but the last, in calls of `rows` positions: some
    tokens in a line of which the last are junk, and candidates of which one is right and is taken."""
    logits: list[npt.NDArray[np.float32]] = []
    while len(logits) + 1 < len(text):
        ahead = text[len(logits) :]
        count = int(generator.integers(1, rows - 1))
        line = rows - count
        place = min(int(generator.integers(line - 1)), len(ahead) - 2)
        candidates = [
            Candidate(int(generator.integers(line - 1)), token)
            for token in _tokens(generator, model, count)
        ]
        right = int(generator.integers(count))
        candidates[right] = Candidate(place, ahead[place + 1])
        start = model.length
        junk = _tokens(generator, model, line - place - 1)
        scored = model.score([*ahead[: place + 1], *junk], candidates).copy()
        logits += [*scored[: place + 1], scored[line + right]]
        model.rewind(start + place + 1)
        model.commit_candidate(right)
    return np.array(logits)


def _junk(generator: np.random.Generator, model: Model, count: int) -> Callable[[], list[int]]:
    return lambda: _tokens(generator, model, count)


def _tokens(generator: np.random.Generator, model: Model, count: int) -> list[int]:
    return [int(token) for token in generator.integers(model.vocab_size, size=count)]
