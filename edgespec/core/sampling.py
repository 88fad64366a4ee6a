"""Sampling options, and the processor that turns logits into a distribution by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TypedDict

import numpy as np

from edgespec.core.array_types import Logits, Probabilities, TokenIds
from edgespec.core.distribution import (
    Distribution,
    Processor,
    arg_max_distribution,
    check_largest_logit,
)
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.errors import UsageError

__all__ = ["Sampling", "SamplingOptions", "SamplingProcessor", "is_greedy"]

MIN_TEMPERATURE = 1e-6  # below it, logits / temperature would leave float32's range


class SamplingOptions(TypedDict, total=False):
    """The keyword arguments of `Sampling`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


@dataclass(frozen=True)
class Sampling:
    """Sampling options; the target and the draft share them.

    They are applied in this order, as in other tools: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k largest logits (and those equal to the k-th); 0 keeps all.
        top_p: keep the smallest set of most probable tokens whose mass reaches it; 1 keeps all.
        min_p: keep tokens at least this fraction as probable as the most probable; 0 keeps all.

    Raises:
        UsageError: an option is out of its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise UsageError(f"{name} is {value!r}; give a number")
        if not (self.temperature == 0 or MIN_TEMPERATURE <= self.temperature < math.inf):
            raise UsageError(
                f"temperature is {self.temperature}; give 0 (greedy) or {MIN_TEMPERATURE} or more"
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

    def processor(self) -> SamplingProcessor:
        """A processor with these options, for one generation."""
        return SamplingProcessor(self)


class SamplingProcessor:
    """Turns one row of logits ([vocabulary], float32) into its distribution.

    It reuses its scratch memory from call to call, so two threads must not share one.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._scratch = _Scratch(0)

    def __call__(self, logits: Logits) -> Distribution:
        """The distribution of one row of logits.

        Raises:
            EdgespecError: the largest logit is infinite or NaN.
        """
        ops = vocab_ops_for(logits)
        best = ops.arg_max(logits)
        highest = float(logits[best])
        if self.sampling.greedy:
            return arg_max_distribution(best, highest)
        check_largest_logit(highest)
        if len(self._scratch.tokens) != len(logits):
            self._scratch = _Scratch(len(logits))
        tokens, weights, total = self._truncated(logits, highest)
        if self.sampling.min_p > 0:
            likely = weights >= self.sampling.min_p  # the most probable token weighs exp(0) = 1
            tokens, weights = tokens[likely], weights[likely]
            total = float(weights.sum(dtype=np.float64))
        weights *= np.float32(1 / total)
        return Distribution(tokens, weights)

    def _truncated(self, logits: Logits, highest: float) -> tuple[TokenIds, Probabilities, float]:
        """The tokens that top-k and top-p keep, their weights exp((logit - highest) /
        temperature), and the sum of these."""
        sampling, scratch = self.sampling, self._scratch
        tokens, left = scratch.tokens, logits
        if 0 < sampling.top_k < len(logits):
            tokens, left = scratch.largest(left, sampling.top_k)
        if sampling.top_p < 1:
            indices, weights = scratch.nucleus(left, highest, sampling.temperature, sampling.top_p)
            return tokens[indices], weights, float(weights.sum(dtype=np.float64))
        if sampling.min_p > 0:
            # A little lower, so that rounding drops no token that the exact min-p test keeps.
            lowest = highest + sampling.temperature * math.log(sampling.min_p) - 1e-3
            indices = scratch.at_least(left, lowest)
            tokens, left = tokens[indices], left[indices]
        weights = np.empty(len(left), np.float32)
        total = vocab_ops_for(left).exp_weights(left, highest, sampling.temperature, weights)
        return tokens, weights, total


def is_greedy(process: Processor) -> bool:
    """Whether every distribution of this processor is the arg-max alone."""
    return isinstance(process, SamplingProcessor) and process.sampling.greedy


class _Scratch:
    """Arrays as long as the vocabulary, allocated once.

    Between two calls of a model, fresh pages for a temporary of this size cost several times what
    is computed in it.
    """

    def __init__(self, count: int) -> None:
        self.tokens = np.arange(count)
        self._floats = np.empty(count, np.float32)
        self._indices = np.empty(count, np.int64)
        self._flags = np.empty(count, np.bool_)

    def nucleus(
        self, logits: Logits, highest: float, temperature: float, share: float
    ) -> tuple[TokenIds, Probabilities]:
        """The indices that top-p keeps, increasing, and their weights."""
        indices, weights = self._indices[: len(logits)], self._floats[: len(logits)]
        ops = vocab_ops_for(logits)
        count = ops.nucleus(logits, highest, temperature, share, indices, weights)
        return indices[:count].copy(), weights[:count].copy()

    def largest(self, logits: Logits, count: int) -> tuple[TokenIds, Probabilities]:
        """Indices of the `count` largest logits, increasing, and these logits; with ties, more."""
        partitioned = self._floats[: len(logits)]
        partitioned[:] = logits
        partitioned.partition(len(logits) - count)
        indices = self.at_least(logits, float(partitioned[len(logits) - count]))
        return indices, logits[indices]

    def at_least(self, logits: Logits, lowest: float) -> TokenIds:
        """Indices of the logits that are at least `lowest`, increasing."""
        flags = np.greater_equal(logits, np.float32(lowest), out=self._flags[: len(logits)])
        return np.flatnonzero(flags)
