"""Logarithms of probabilities in a row of logits, by the arithmetic that tokens are drawn with: the
numbers are the same in every language."""

from __future__ import annotations

import math

import numpy as np

from edgespec.core.array_types import Logits
from edgespec.core.vocab_ops import vocab_ops_for

__all__ = ["log_sum", "logprob"]


def log_sum(logits: Logits) -> float:
    """log Σ e^logit; -∞ if no token may come."""
    highest = float(logits.max(initial=-np.inf))
    if highest == -math.inf:
        return highest
    weights = np.empty_like(logits)
    return highest + math.log(vocab_ops_for(logits).exp_weights(logits, highest, 1.0, weights))


def logprob(logits: Logits, token: int) -> float:
    """log p(token): log-softmax of a row."""
    return float(logits[token]) - log_sum(logits)
