"""The processor that turns logits into a distribution by sampling options."""

from __future__ import annotations

import math

import numpy as np

from edgespec.core.array_types import Logits, Probabilities, TokenIds
from edgespec.core.distribution import (
    Distribution,
    Processor,
    arg_max_distribution,
    check_largest_logit,
)
from edgespec.core.distribution_options import Sampling
from edgespec.core.vocab_ops import vocab_ops_for

__all__ = ["SamplingProcessor", "is_greedy"]


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
        if self.sampling.xtc_probability > 0:
            tokens, weights = _without_top_choices(tokens, weights, self.sampling)
        return Distribution(tokens, weights)

    def _truncated(self, logits: Logits, highest: float) -> tuple[TokenIds, Probabilities, float]:
        """The tokens that top-k and top-p keep, their weights exp((logit - highest) /
        temperature), and the sum of these."""
        sampling, scratch = self.sampling, self._scratch
        tokens, left = scratch.tokens, logits
        if sampling.top_n_sigma > 0:
            tokens = scratch.at_least(left, highest - sampling.top_n_sigma * _deviation(left))
            left = left[tokens]
        if 0 < sampling.top_k < len(left):
            indices, left = scratch.largest(left, sampling.top_k)
            tokens = tokens[indices]
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


def _deviation(logits: Logits) -> float:
    """The standard deviation of the finite logits, summed in their order, as in JavaScript."""
    finite = logits[np.isfinite(logits)].astype(np.float64)
    mean = np.cumsum(finite)[-1] / len(finite)
    return math.sqrt(np.cumsum((finite - mean) ** 2)[-1] / len(finite))


def _without_top_choices(
    tokens: TokenIds, probabilities: Probabilities, sampling: Sampling
) -> tuple[TokenIds, Probabilities]:
    """XTC: the mean of the distribution and of the one without its top choices, by the probability
    that these are left out."""
    top = np.flatnonzero(probabilities >= np.float32(sampling.xtc_threshold))
    if len(top) < 2:
        return tokens, probabilities
    is_left_out = np.zeros(len(tokens), np.bool_)
    is_left_out[top] = True
    is_left_out[top[np.argmin(probabilities[top])]] = False
    share = np.cumsum(probabilities[~is_left_out], dtype=np.float64)[-1]  # in order, as JavaScript
    stays = 1 - sampling.xtc_probability
    factors = np.where(is_left_out, stays, stays + sampling.xtc_probability / share)
    mean = (probabilities * factors).astype(np.float32)
    return (tokens, mean) if stays > 0 else (tokens[~is_left_out], mean[~is_left_out])


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
