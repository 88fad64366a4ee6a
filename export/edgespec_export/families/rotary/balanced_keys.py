"""Keys whose numbers are of one size, so that a cache of 8 bits has steps for all of them.

A cache in int8 has one scale for a key of a head. Qwen 2 and 2.5 have biases of keys that are 200
times as large in a few numbers as in the others, which then have no more than a few of the 255
steps. Queries and keys meet in products alone: a pair of numbers that is turned together may be
divided in the keys and multiplied in the queries. By powers of two nothing is rounded: scores have
the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.attention.heads import Heads

__all__ = ["WHOLE", "BalancedKeys"]

# What a key's and a query's factors come to together; the scores are divided by it. So none is
# below 1, where a scale of a group of weights in float16 could lose bits.
WHOLE = 64


class BalancedKeys:
    """The checkpoint with queries and keys multiplied by powers of two.

    Number i of a head forms a pair with i + size / 2.

    Args:
        heads: of its attention; their projections and biases are named "….q_proj.weight" and so on.
    """

    def __init__(self, weights: Weights, heads: Heads) -> None:
        self._weights = weights
        self._heads = heads
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(name)
        factors = self._factors(name)
        if factors is None:
            return tensor
        return (tensor.astype(np.float32).T * factors).T

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if self._factors(name) is None:
            return read_rows(self._weights, name, start, stop)
        return self.read(name)[start:stop]

    def _factors(self, name: str) -> npt.NDArray[np.float32] | None:
        """Of the rows of queries or of keys; None for another tensor."""
        before, _, last = name.rpartition("_proj.")
        if last not in ("weight", "bias") or before[-2:] not in (".q", ".k"):
            return None
        bias = self._weights.read(f"{before[:-1]}k_proj.bias").astype(np.float32)
        queries = _query_factors(bias.reshape(self._heads.kv_count, 2, -1))
        if before.endswith(".k"):
            return (WHOLE / queries).astype(np.float32).reshape(-1)
        groups = self._heads.count // self._heads.kv_count
        return np.repeat(queries, groups, axis=0).reshape(-1)


def _query_factors(bias: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How many times as large the bias of a pair is as most of its head's, as powers of two from 1
    to `WHOLE`: [heads, size], from biases of keys [heads, 2, size / 2]."""
    sizes = np.hypot(bias[:, 0], bias[:, 1])
    usual = np.maximum(np.median(sizes, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    powers = np.rint(np.log2(np.clip(sizes / usual, 1, WHOLE)))
    factors = np.exp2(powers).astype(np.float32)
    return np.concatenate([factors, factors], axis=1)
