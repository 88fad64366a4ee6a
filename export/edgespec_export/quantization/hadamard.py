"""The same function from turned weights: outliers are spread over their neighbours.

A few channels of the residual stream are tens of times as large as the others, and eight bits for a
row are then eight bits for those. An orthogonal matrix Q = Qᵀ = Q⁻¹ on the stream changes nothing:
what writes to it is multiplied by Q, what reads from it by Q once more, and norms do not see it
once their weights are folded into their readers. Q is made of Hadamard blocks, so each of a block's
numbers becomes a sum of all of them. Ashkboos et al. (2024, arXiv 2404.00456);
docs/decisions/0010-rotated-int8.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights

__all__ = [
    "INNER_BLOCK",
    "STREAM_BLOCK",
    "Residual",
    "Rotated",
    "block_size",
    "hadamard",
    "turned",
]

STREAM_BLOCK = 512  # at most: turned once, at export
INNER_BLOCK = 64  # at most: turned at every call

Float = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Residual:
    """What touches a model's residual stream: names of tensors.

    Attributes:
        tables: the embedding, whose rows are the stream's first values, and a head of its own.
        readers: matrices that read the stream, each with the norm in front of it. Every reader of
            these norms must be here; a head's norm keeps its weights.
        writers: matrices whose output is added to the stream, and their biases.
        inner: those writers that read the feed-forward's activations, whose outliers no weights
            can turn away: a graph turns them when they come.
    """

    tables: frozenset[str]
    readers: Mapping[str, str]
    writers: frozenset[str]
    inner: frozenset[str]


class Rotated:
    """A checkpoint's `Weights`, turned one tensor at a time."""

    def __init__(self, weights: Weights, residual: Residual) -> None:
        self._weights = weights
        self._residual = residual
        self._folded = frozenset(residual.readers.values())
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> np.ndarray[Any, Any]:
        residual = self._residual
        if name in self._folded:
            return np.ones(self.shape(name), np.float32)
        tensor = self._weights.read(name)
        if name in residual.readers:
            norm = self._weights.read(residual.readers[name]).astype(np.float32)
            tensor = turned(tensor * norm, STREAM_BLOCK)
        elif name in residual.tables:
            tensor = turned(tensor, STREAM_BLOCK)
        if name in residual.inner:
            tensor = turned(tensor, INNER_BLOCK)
        if name in residual.writers:
            tensor = _turned_outputs(tensor)
        return tensor


def block_size(width: int, most: int) -> int:
    """Of Hadamard blocks: the largest power of two in `width`, up to `most`. 1 turns nothing."""
    return min(width & -width, most)


def hadamard(size: int) -> Float:
    """Sylvester's matrix for a power of two, symmetric and orthonormal: [size, size]."""
    matrix: Float = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix *= np.float32(size**-0.5)
    return matrix


def turned(rows: npt.NDArray[Any], most: int) -> Float:
    """rows · Q over the last axis, in float32, Q of blocks of `most` numbers at most."""
    size = block_size(rows.shape[-1], most)
    blocks = rows.astype(np.float32, copy=False).reshape(-1, size)
    return (blocks @ hadamard(size)).reshape(rows.shape)


def _turned_outputs(matrix: npt.NDArray[Any]) -> Float:
    """Q · matrix, or Q · bias: over the first axis, block by block."""
    size = block_size(matrix.shape[0], STREAM_BLOCK)
    blocks = matrix.astype(np.float32, copy=False).reshape(-1, size, matrix[0].size)
    return (hadamard(size) @ blocks).reshape(matrix.shape)
