"""Logits to distributions: the processors that the target and the draft share.

A distribution is the sorted tokens that can occur and their probabilities. Greedy decoding is the
distribution that holds one token, so the rules and the loops do not know the word "greedy".

p is the target's distribution and q the draft's, everywhere in this package, as in Leviathan,
Kalman and Matias (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.core.vocab_ops import arithmetic_for
from edgespec.errors import EdgespecError, UsageError

__all__ = ["Distribution", "Process", "Sampling", "certain", "is_greedy", "one_hot"]

COLDEST = 1e-6  # a lower temperature is greedy, but for float32's range

# Floats on a device, `fractions.Fraction` objects where a test walks the distribution exactly.
Probabilities = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Distribution:
    """A distribution over tokens: `probabilities[i]` belongs to `tokens[i]`; every other token has none.

    Attributes:
        tokens: [k] integers, strictly increasing.
        probabilities: [k] non-negative weights that sum to one for p and q. A residual, which is
            only ever drawn from, is left without the division.
    """

    tokens: Tokens
    probabilities: Probabilities

    def of(self, token: int) -> Any:
        """The probability of one token, 0 outside the support."""
        last = len(self.tokens) - 1
        if token <= last and self._whole:
            return self.probabilities.item(token)
        place = min(int(self.tokens.searchsorted(token)), last) if last else 0
        return self.probabilities.item(place) if self.tokens[place] == token else 0

    def places(self, tokens: Tokens) -> Tokens:
        """Where each of `tokens` ([n]) stands in this support: [n]; behind its end if nowhere."""
        if self._whole:
            return tokens
        last = len(self.tokens) - 1
        places = np.minimum(np.searchsorted(self.tokens, tokens), last)
        return np.where(self.tokens[places] == tokens, places, last + 1)

    @property
    def _whole(self) -> bool:
        """Whether these are all tokens up to the last: each then stands at its own number."""
        last = len(self.tokens) - 1
        return bool(self.tokens[last] == last)


# One row of logits ([vocabulary], float32) to its distribution: `Sampling`, or a test's own.
Process = Callable[[Logits], Distribution]

_CERTAIN = np.ones(1, np.int64)
_CERTAIN.flags.writeable = False


def one_hot(token: int) -> Distribution:
    """The distribution of a token that was not drawn but determined (arg-max, a looked-up continuation)."""
    return Distribution(np.array([token]), _CERTAIN)


def certain(token: int, logit: float) -> Distribution:
    """The distribution of greedy decoding, of the token that has the largest logit."""
    _check(logit)
    return one_hot(token)


def _check(largest_logit: float) -> None:
    if not math.isfinite(largest_logit):  # numpy's takes as long for a number as for a row
        raise EdgespecError(
            f"the model returned {largest_logit} as its largest logit, so no token can be chosen; "
            "export it again with --verify, or use another format"
        )


@dataclass(frozen=True)
class Sampling:
    """How logits become a distribution. The same object serves the target and the draft.

    Applied in this order, as users know them from other tools: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k largest logits (ties with the k-th are kept); 0 keeps all.
        top_p: keep the smallest set of most probable tokens whose mass reaches it; 1 keeps all.
        min_p: keep tokens at least this fraction as probable as the most probable; 0 keeps all.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    _memory: dict[int, _Memory] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise UsageError(f"{name} is {value!r}; give a number")
        if not (self.temperature == 0 or COLDEST <= self.temperature < math.inf):
            raise UsageError(
                f"temperature is {self.temperature}; give 0 (greedy) or {COLDEST} or more"
            )
        if not isinstance(self.top_k, Integral) or self.top_k < 0:
            raise UsageError(f"top_k is {self.top_k}; give 0 (off) or a whole number above it")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; give a number above 0 and at most 1 (off)")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"min_p is {self.min_p}; give a number from 0 (off) to 1")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def options(self) -> dict[str, float]:
        """As keyword arguments of `edgespec.Pair.stream`."""
        names = ("temperature", "top_k", "top_p", "min_p")
        return {name: getattr(self, name) for name in names}

    def __call__(self, logits: Logits) -> Distribution:
        """The distribution of one row of logits ([vocabulary], float32)."""
        best = arithmetic_for(logits).largest(logits)
        highest = float(logits[best])
        if self.greedy:
            return certain(best, highest)
        _check(highest)
        memory = self._memory_for(len(logits))
        tokens, kept = memory.tokens, logits
        if 0 < self.top_k < len(logits):
            tokens, kept = memory.largest(kept, self.top_k)
        if self.top_p < 1:
            places, weights = memory.nucleus(kept, highest, self.temperature, self.top_p)
            tokens = tokens[places]
            total = float(weights.sum(dtype=np.float64))
        else:
            if self.min_p > 0:
                # A little lower, so that rounding drops no token that the exact test below keeps.
                lowest = highest + self.temperature * math.log(self.min_p) - 1e-3
                places = memory.above(kept, lowest)
                tokens, kept = tokens[places], kept[places]
            weights = np.empty(len(kept), np.float32)
            total = arithmetic_for(kept).weigh(kept, highest, self.temperature, weights)
        if self.min_p > 0:
            likely = weights >= self.min_p  # the most probable token weighs exp(0) = 1
            tokens, weights = tokens[likely], weights[likely]
            total = float(weights.sum(dtype=np.float64))
        weights *= np.float32(1 / total)
        return Distribution(tokens, weights)

    def _memory_for(self, count: int) -> _Memory:
        if count not in self._memory:
            self._memory[count] = _Memory(count)
        return self._memory[count]


def is_greedy(process: Process) -> bool:
    """Whether its distributions hold the arg-max alone."""
    return isinstance(process, Sampling) and process.greedy


class _Memory:
    """Arrays as long as the vocabulary, made once.

    Between two calls of a model, fetching fresh memory from the system for a temporary of this size
    costs several times what is computed in it.
    """

    def __init__(self, count: int) -> None:
        self.tokens = np.arange(count)
        self._numbers = np.empty(count, np.float32)
        self._places = np.empty(count, np.int64)
        self._flags = np.empty(count, np.bool_)

    def nucleus(
        self, logits: Logits, highest: float, temperature: float, share: float
    ) -> tuple[Tokens, npt.NDArray[np.float32]]:
        """The places that top-p keeps, increasing, and their weights."""
        places, weights = self._places[: len(logits)], self._numbers[: len(logits)]
        arithmetic = arithmetic_for(logits)
        count = arithmetic.nucleus(logits, highest, temperature, share, places, weights)
        return places[:count].copy(), weights[:count].copy()

    def largest(self, logits: Logits, count: int) -> tuple[Tokens, Logits]:
        """The places of the `count` largest logits, increasing, and their logits; ties are kept."""
        sorted_in_part = self._numbers[: len(logits)]
        sorted_in_part[:] = logits
        sorted_in_part.partition(len(logits) - count)
        places = self.above(logits, sorted_in_part[len(logits) - count])
        return places, logits[places]

    def above(self, logits: Logits, lowest: float) -> Tokens:
        """The places of the logits that are at least `lowest`, increasing."""
        flags = np.greater_equal(logits, np.float32(lowest), out=self._flags[: len(logits)])
        return np.flatnonzero(flags)
