"""A Qwen3.5's tensors as its blocks read them."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows

__all__ = ["GATE", "NORM", "QUERIES", "StoredWeights"]

QUERIES = "self_attn.q_proj.weight"
GATE = "self_attn.gate.weight"
PLAIN_NORM = "linear_attn.norm.weight"
NORM = re.compile(r"norm(_embedding|_hidden)?\.weight$")  # also those of its own draft


class StoredWeights:
    """The checkpoint with norms that are 1 + w, and with gates of attention apart from queries.

    A checkpoint has both in one matrix: the queries of a head, then its gate.

    Args:
        size: numbers of a head.
    """

    def __init__(self, weights: Weights, size: int) -> None:
        self._weights = weights
        self._size = size

    def names(self) -> list[str]:
        names = self._weights.names()
        gates = [_gate_of(name) for name in names if name.endswith(QUERIES)]
        return sorted([*names, *gates])

    def shape(self, name: str) -> tuple[int, ...]:
        stored = _stored(name)
        rows, *inner = self._weights.shape(stored)
        return (rows // 2 if stored.endswith(QUERIES) else rows, *inner)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(_stored(name))
        if name.endswith((QUERIES, GATE)):
            heads = tensor.reshape(-1, 2, self._size, tensor.shape[-1])
            part = heads[:, int(name.endswith(GATE))]
            return np.ascontiguousarray(part).reshape(-1, tensor.shape[-1])
        if NORM.search(name) and not name.endswith(PLAIN_NORM):
            return tensor.astype(np.float32) + np.float32(1)
        return tensor

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if name.endswith((QUERIES, GATE)):
            return self.read(name)[start:stop]
        return read_rows(self._weights, name, start, stop)


def _gate_of(queries: str) -> str:
    return queries.removesuffix(QUERIES) + GATE


def _stored(name: str) -> str:
    """The tensor of the checkpoint that has this one."""
    return name.removesuffix(GATE) + QUERIES if name.endswith(GATE) else name
