"""Log-probabilities of tokens, from rows of logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import cast

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import LogitRows
from edgespec.errors import UsageError, shortened

__all__ = ["TopLogprobs", "check_top_logprobs", "log_softmax", "token_logprobs"]

MAX_TOP_LOGPROBS = 20  # OpenAI's limit

TopLogprobs = Sequence[tuple[int, float]]  # token ids and log-probabilities, the largest first


def check_top_logprobs(number: object) -> None:
    """Raises UsageError unless it is a whole number that is allowed."""
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not (whole and 0 <= int(cast("int", number)) <= MAX_TOP_LOGPROBS):
        raise UsageError(
            f"top_logprobs is {shortened(number)}; give a whole number from 0 to {MAX_TOP_LOGPROBS}"
        )


def token_logprobs(
    logits: LogitRows, tokens: Sequence[int], top: int
) -> Iterator[tuple[float, TopLogprobs]]:
    """log p of each token, and of the `top` most probable ones.

    Args:
        logits: [tokens, vocabulary], a row for each token.
    """
    for row, token in zip(log_softmax(logits), tokens, strict=True):
        yield float(row[token]), _largest(row, top)


def log_softmax(logits: LogitRows) -> npt.NDArray[np.float64]:
    """Log-probabilities [rows, vocabulary] of logits [rows, vocabulary]."""
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=-1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    return rows


def _largest(row: npt.NDArray[np.float64], count: int) -> TopLogprobs:
    """The largest values of a row, with their indices; of equal ones the first index first."""
    if not count:
        return ()
    lowest = np.partition(row, -min(count, len(row)))[-min(count, len(row))]
    indices = np.flatnonzero(row >= lowest)
    best = indices[np.argsort(-row[indices], kind="stable")][:count]
    return [(int(index), float(row[index])) for index in best]
