"""Queries, keys and values that a checkpoint stores as one matrix, head by head."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.attention.heads import Heads

__all__ = ["HeadsApart"]


class HeadsApart:
    """The checkpoint with all queries, then all keys, then all values in the matrix of the three.

    Stored are the heads of one key after another: the queries that attend to it, its keys and its
    values. Without groups (GPT-NeoX, BLOOM) these are a query, a key and a value for each head.

    Args:
        part: the second to last part of the matrix's name, and of its bias's.
    """

    def __init__(self, weights: Weights, part: str, heads: Heads) -> None:
        self._weights = weights
        self._part = part
        self._heads = heads
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(name)
        if not self._is_fused(name):
            return tensor
        heads = self._heads
        groups = (heads.kv_count, heads.count // heads.kv_count + 2, heads.size)
        by_key = tensor.reshape(*groups, *tensor.shape[1:])
        apart = (by_key[:, :-2], by_key[:, -2], by_key[:, -1])
        return np.concatenate([rows.reshape(-1, *tensor.shape[1:]) for rows in apart])

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if not self._is_fused(name):
            return read_rows(self._weights, name, start, stop)
        return self.read(name)[start:stop]

    def _is_fused(self, name: str) -> bool:
        return name.split(".")[-2:-1] == [self._part]
