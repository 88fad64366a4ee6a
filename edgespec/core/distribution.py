"""A distribution over tokens: the tokens that can occur, sorted, and their probabilities.

Greedy decoding is a distribution that holds one token, so rules and loops need no greedy case.

p is the target's distribution and q the draft's, everywhere in this package, as in Leviathan,
Kalman and Matias (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgespec.core.array_types import Number, Probabilities, QIndices, TokenIds, VocabRow
from edgespec.errors import EdgespecError

__all__ = [
    "REFUSED",
    "Distribution",
    "Processor",
    "RefusedLogitsError",
    "RefusedRow",
    "arg_max_distribution",
    "one_hot",
    "refused",
]

REFUSED = -1  # what is drawn from a `RefusedRow`


class RefusedLogitsError(EdgespecError):
    """A row of logits from which no token can be drawn."""


@dataclass(frozen=True)
class Distribution:
    """Probabilities of some tokens; every other token has probability 0.

    Attributes:
        tokens: [k] token ids, strictly increasing: the support.
        probabilities: [k] non-negative; `probabilities[i]` belongs to `tokens[i]`. They sum to one
            for p and q. A residual, which is only drawn from, is not normalised.
    """

    tokens: TokenIds
    probabilities: Probabilities

    def of(self, token: int) -> Number:
        """The probability of one token; 0 outside the support."""
        last = len(self.tokens) - 1
        if token <= last and self._is_prefix:
            index = token
        else:
            index = min(int(self.tokens.searchsorted(token)), last) if last else 0
            if self.tokens[index] != token:
                return 0
        probability: Number = self.probabilities.item(index)
        return probability

    def indices_of(self, tokens: QIndices) -> QIndices:
        """The index of each of `tokens` ([n]) in the support: [n]; k or more where it is absent."""
        if self._is_prefix:
            return tokens
        last = len(self.tokens) - 1
        indices = np.minimum(np.searchsorted(self.tokens, tokens), last)
        return np.where(self.tokens[indices] == tokens, indices, last + 1)

    @property
    def _is_prefix(self) -> bool:
        """Whether the support is 0 … k − 1, so that every token is its own index."""
        last = len(self.tokens) - 1
        return bool(self.tokens[last] == last)


@dataclass(frozen=True)
class RefusedRow(Distribution):
    """What stands for the distribution of a row that cannot have one: all probability on `REFUSED`.

    Many rows of a call decide nothing: those after a rejected token, and after a text's end. So a
    row's error is raised where the text would go on with the row's token, and nowhere else.

    Attributes:
        error: why it has none.
    """

    error: EdgespecError


# One row of logits ([vocab], float32) to its distribution.
Processor = Callable[[VocabRow], Distribution]

_ONE = np.ones(1, np.int64)
_ONE.flags.writeable = False


def one_hot(token: int) -> Distribution:
    """The distribution of a token that is determined, not drawn: an arg-max, a looked-up token."""
    return Distribution(np.array([token]), _ONE)


def refused(error: EdgespecError) -> RefusedRow:
    """The stand-in for a distribution that could not be made."""
    return RefusedRow(np.array([REFUSED]), _ONE, error)


def arg_max_distribution(token: int, logit: float) -> Distribution:
    """The distribution of greedy decoding: all probability on the token with the largest logit.

    Raises:
        RefusedLogitsError: that logit is infinite or NaN.
    """
    check_largest_logit(logit)
    return one_hot(token)


def check_largest_logit(logit: float) -> None:
    """Refuses a row of logits whose largest is infinite or NaN."""
    if not math.isfinite(logit):  # of one number, math is faster than numpy
        raise RefusedLogitsError(
            f"the model returned {logit} as its largest logit, so no token can be drawn; "
            "export it again with --verify, or use another format"
        )
