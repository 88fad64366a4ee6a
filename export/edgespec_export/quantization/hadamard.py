"""The same function from Hadamard-rotated weights, which spread outliers over their neighbours.

A few channels of the residual stream are tens of times as large as the others, and take most of the
range of a row's eight bits. An orthogonal matrix Q = Qᵀ = Q⁻¹ on the stream changes nothing: what
writes to it is multiplied by Q, what reads from it by Q once more, and RMS norms commute with Q
once their weights are folded into their readers. Q consists of Hadamard blocks, so each number of a
block becomes a sum of all of them. Ashkboos et al. (2024, arXiv 2404.00456);
docs/decisions/0010-rotated-int8.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.residual_stream import ResidualStream

__all__ = ["INNER_BLOCK", "STREAM_BLOCK", "RotatedWeights", "block_size", "hadamard", "rotated"]

STREAM_BLOCK = 512  # largest block of the residual stream, which is rotated once, at export
INNER_BLOCK = 64  # largest block of the feed-forward's activations, rotated at every call

Float = npt.NDArray[np.float32]


class RotatedWeights:
    """A checkpoint's `Weights`, rotated one tensor at a time."""

    def __init__(self, weights: Weights, stream: ResidualStream) -> None:
        self._weights = weights
        self._stream = stream
        self._folded = frozenset(stream.readers.values())
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name in self._folded:
            return np.ones(self.shape(name), np.float32)
        tensor = self._rotated_rows(name, self._weights.read(name))
        return _rotated_outputs(tensor) if name in self._stream.writers else tensor

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        """Rows of `read`; what writes to the stream is rotated as a whole."""
        if name in self._folded or name in self._stream.writers:
            return self.read(name)[start:stop]
        return self._rotated_rows(name, read_rows(self._weights, name, start, stop))

    def _rotated_rows(self, name: str, rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Rows of a tensor, by what they read."""
        stream = self._stream
        if name in stream.readers:
            norm = self._weights.read(stream.readers[name]).astype(np.float32)
            rows = rotated(rows.astype(np.float32, copy=False) * norm, STREAM_BLOCK)
        elif name in stream.tables:
            rows = rotated(rows, STREAM_BLOCK)
        if name in stream.down_projs or name in stream.rotated_reads:
            rows = rotated(rows, INNER_BLOCK)
        return rows


def block_size(width: int, max_block: int) -> int:
    """Size of the Hadamard blocks: the largest power of two that divides `width`, at most
    `max_block`. Blocks of 1 rotate nothing."""
    return min(width & -width, max_block)


def hadamard(size: int) -> Float:
    """Sylvester's matrix for a power of two, symmetric and orthonormal: [size, size]."""
    matrix: Float = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix *= np.float32(size**-0.5)
    return matrix


def rotated(rows: npt.NDArray[np.generic], max_block: int) -> Float:
    """rows · Q over the last axis, in float32; the blocks of Q are `max_block` wide at most."""
    size = block_size(rows.shape[-1], max_block)
    blocks = rows.astype(np.float32, copy=False).reshape(-1, size)
    return (blocks @ hadamard(size)).reshape(rows.shape)


def _rotated_outputs(matrix: npt.NDArray[np.generic]) -> Float:
    """Q · matrix, or Q · bias: over the first axis, block by block."""
    size = block_size(matrix.shape[0], STREAM_BLOCK)
    blocks = matrix.astype(np.float32, copy=False).reshape(-1, size, matrix[0].size)
    return (hadamard(size) @ blocks).reshape(matrix.shape)
