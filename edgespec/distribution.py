"""Logits to distributions: the processors that the target and the draft share.

A distribution is the sorted tokens that can occur and their probabilities. Greedy decoding is the
distribution that holds one token, so nothing else in the package knows the word "greedy".

p is the target's distribution and q the draft's, everywhere in this package, as in Leviathan,
Kalman and Matias (2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, UsageError

__all__ = ["Distribution", "Sampling", "one_hot"]

# Floats on a device, `fractions.Fraction` objects where a test walks the law exactly.
Probabilities = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]

# A nucleus is looked for among so many tokens first.
FEW = 512


@dataclass(frozen=True)
class Distribution:
    """A law over tokens: `probabilities[i]` belongs to `tokens[i]`; every other token has none.

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
        place = min(int(self.tokens.searchsorted(token)), last) if last else 0
        return self.probabilities[place] if self.tokens[place] == token else 0

    def places(self, tokens: Tokens) -> tuple[Tokens, npt.NDArray[np.bool_]]:
        """Where each of `tokens` ([n]) stands in this support, and whether it does: [n] and [n]."""
        places = np.minimum(np.searchsorted(self.tokens, tokens), len(self.tokens) - 1)
        return places, self.tokens[places] == tokens


_CERTAIN = np.ones(1, np.int64)
_CERTAIN.flags.writeable = False


def one_hot(token: int) -> Distribution:
    """The law of a token that was not drawn but determined (arg-max, a looked-up continuation)."""
    return Distribution(np.array([token]), _CERTAIN)


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
    _vocabulary: dict[int, Tokens] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature is {self.temperature}; give 0 (greedy) or more")
        if self.top_k < 0 or self.top_k != int(self.top_k):
            raise UsageError(f"top_k is {self.top_k}; give 0 (off) or a whole number above it")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; give a number above 0 and at most 1 (off)")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"min_p is {self.min_p}; give a number from 0 (off) to 1")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def __call__(self, logits: Logits) -> Distribution:
        """The distribution of one row of logits ([vocabulary], float32)."""
        best = int(logits.argmax())
        highest = logits[best]
        if not np.isfinite(highest):
            raise EdgespecError(
                f"the model returned {highest} as its largest logit, so no token can be chosen; "
                "export it again with --verify, or use another format"
            )
        if self.greedy:
            return one_hot(best)
        tokens, kept = self._all_tokens(len(logits)), logits
        if 0 < self.top_k < len(logits):
            tokens, kept = _largest(logits, self.top_k)
        total = 0.0
        if self.top_p < 1:
            total = float(np.exp((kept - highest) / np.float32(self.temperature)).sum())
        if self.min_p > 0:
            # A little lower, so that rounding drops no token that the exact test below keeps.
            lowest = highest + self.temperature * math.log(self.min_p) - 1e-3
            tokens, kept = _above(tokens, kept, lowest)
        if self.top_p < 1:
            tokens, kept = self._near_the_top(tokens, kept, highest, total)
        # In float64: a vocabulary of float32 terms would lose the law's last digits in its sum.
        weights = np.subtract(kept, highest, dtype=np.float64)
        weights /= self.temperature
        np.exp(weights, out=weights)
        if self.top_p < 1:
            tokens, weights = _nucleus(tokens, weights, self.top_p * total)
        if self.min_p > 0:
            likely = weights >= self.min_p  # the most probable token weighs exp(0) = 1
            tokens, weights = tokens[likely], weights[likely]
        weights /= weights.sum()
        return Distribution(tokens, weights)

    def _near_the_top(
        self, tokens: Tokens, logits: Logits, highest: np.float32, total: float
    ) -> tuple[Tokens, Logits]:
        """The largest few logits, if they reach top_p together; else all: sorting is dear."""
        if len(logits) <= FEW:
            return tokens, logits
        places, few = _largest(logits, FEW)
        mass = float(np.exp((few - highest) / np.float32(self.temperature)).sum())
        enough = mass > (self.top_p + 1e-3) * total
        return (tokens[places], few) if enough else (tokens, logits)

    def _all_tokens(self, count: int) -> Tokens:
        """Made once: allocating a vocabulary's worth of memory costs more than filling it."""
        if count not in self._vocabulary:
            self._vocabulary[count] = np.arange(count)
        return self._vocabulary[count]


def _largest(logits: Logits, count: int) -> tuple[Tokens, Logits]:
    """The places of the `count` largest logits, increasing, and their logits; ties are kept."""
    threshold = np.partition(logits, len(logits) - count)[len(logits) - count]
    return _above(None, logits, threshold)


def _above(tokens: Tokens | None, logits: Logits, lowest: float) -> tuple[Tokens, Logits]:
    """The tokens (None: their places) whose logit is at least `lowest`, and their logits."""
    places = np.flatnonzero(logits >= np.float32(lowest))
    return places if tokens is None else tokens[places], logits[places]


def _nucleus(
    tokens: Tokens, weights: npt.NDArray[np.float64], mass: float
) -> tuple[Tokens, npt.NDArray[np.float64]]:
    """The smallest set of most probable tokens whose weights reach `mass`."""
    order = np.argsort(-weights, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), mass)) + 1
    kept = np.sort(order[:needed])
    return tokens[kept], weights[kept]
