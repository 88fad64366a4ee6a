"""Row invariance in few calls, for devices whose calls are slow or whose kernels depend on the rows
of a call: which numbers of rows give the bits of the longest call?

A device may have other kernels for few rows. The smallest number is sought from which on all agree;
shorter calls are then padded to it. That may be the longest call: then all calls have one size. On
a GPU that costs little: 17 rows took 1.06 to 1.18 of the time of one on an H200.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.core.model import Model
from edgespec_runtimes.invariance import (
    FEW_STARTS,
    POSITIONS_AFTER_START,
    ROUNDS,
    MeasuredCall,
    passages,
    scored_in_calls,
)
from edgespec_runtimes.machine import Machine
from edgespec_runtimes.measuring_progress import MeasuringProgress

__all__ = ["measure_by_rows"]

CALLS = MAX_ROWS + 2 + len(ROUNDS)  # that are made, about

logger = logging.getLogger("edgespec")


def measure_by_rows(model: Model, machine: Machine) -> RowInvariance:
    """Compares calls of 1 to 16 rows with one of 17, bit by bit, and then rounds of them.

    Args:
        model: must make calls with one row when asked for one position.
        machine: the one that the model runs on.

    Raises:
        EdgespecError: a logit is NaN or infinite, or the cache is too small to measure.
    """
    progress, generator = MeasuringProgress(CALLS), np.random.default_rng(1)
    differences = np.zeros(MAX_ROWS - 1)  # of calls with 1, 2, … rows
    equal = np.ones(MAX_ROWS - 1, bool)
    digest = hashlib.sha256()
    sequence: Sequence[int] = ()
    expected: npt.NDArray[np.float32] = np.empty(0, np.float32)
    start = 0
    fitting = [at for at in FEW_STARTS if at + POSITIONS_AFTER_START <= model.capacity]
    for passage in passages(model, fitting[:1] or FEW_STARTS[-1:]):
        start, sequence, expected = model.length, passage.sequence, passage.logits
        digest.update(expected.tobytes())
        progress.call()
        for rows in range(1, MAX_ROWS):
            model.rewind(start)
            logits = model.score(sequence[:rows])
            equal[rows - 1] &= np.array_equal(logits, expected[:rows])
            largest = float(np.abs(logits - expected[:rows]).max())
            differences[rows - 1] = max(differences[rows - 1], largest)
            progress.call()
    fewest = next(rows for rows in range(1, MAX_ROWS + 1) if equal[rows - 1 :].all())
    _say_which_differ(equal, differences)
    # What a call rejects must leave no trace.
    model.rewind(start)
    walk = [MeasuredCall(kept, max(rejected, fewest - kept)) for kept, rejected in ROUNDS]
    walk = [MeasuredCall(kept, min(rest, MAX_ROWS - kept)) for kept, rest in walk]
    agree = np.array_equal(scored_in_calls(model, sequence, walk, generator, progress), expected)
    return RowInvariance(
        is_row_invariant=agree,
        min_rows=fewest if agree else min(fewest, 2),
        max_rows=MAX_ROWS,
        one_row_difference=float(differences[0]),
        measured_on=str(machine),
        machine=machine.digest,
        candidates=False,
        texts=False,
        kernels=machine.kernels,
        logits=digest.hexdigest(),
    )


def _say_which_differ(equal: npt.NDArray[np.bool_], differences: npt.NDArray[np.float64]) -> None:
    """Says which numbers of rows have other bits than the longest call."""
    rows = [str(number + 1) for number, same in enumerate(equal) if not same]
    if rows:
        logger.info(
            "calls of %s rows differ from one of %d by up to %.1e",
            ", ".join(rows),
            MAX_ROWS,
            differences.max(),
        )
