"""Tensors that are made and written block by block, because they may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "RowStream"]

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class RowStream:
    """A tensor in blocks of rows, one below the other.

    Attributes:
        shape: of the whole.
        dtype: of every block.
        blocks: they can be iterated over once.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    blocks: Iterable[Array]

    @classmethod
    def of(cls, array: Array) -> RowStream:
        return cls(array.shape, array.dtype, [array.reshape(array.shape or 1)])

    def pieces(self, limit: int) -> Iterator[tuple[tuple[int, ...], Iterator[Array]]]:
        """Shapes and blocks of the whole, cut between rows where it has more than `limit` bytes.

        The blocks of a piece must be read before the next piece.

        Raises:
            ValueError: a block has rows of another shape, or there are too few rows.
        """
        if not self.shape:
            yield (), iter(self.blocks)
            return
        rows, *inner = self.shape
        row_bytes = prod(inner) * self.dtype.itemsize
        most = rows if rows * row_bytes <= limit else max(1, limit // row_bytes)
        rest = _Rows(self.blocks, tuple(inner))
        for first in range(0, rows, most) if rows else [0]:
            count = min(most, rows - first)
            yield (count, *inner), rest.take(count)


class _Rows:
    """Blocks of rows of a shape, from which rows are taken in portions of any size."""

    def __init__(self, blocks: Iterable[Array], shape: tuple[int, ...]) -> None:
        self._blocks = iter(blocks)
        self._shape = shape
        self._rest: Array | None = None

    def take(self, count: int) -> Iterator[Array]:
        while count:
            block = next(self._blocks, None) if self._rest is None else self._rest
            if block is None or block.shape[1:] != self._shape:
                found = "no more rows" if block is None else f"rows {list(block.shape[1:])}"
                raise ValueError(f"{found} in a table of rows {list(self._shape)}")
            self._rest = block[count:] if len(block) > count else None
            taken = block[:count]
            count -= len(taken)
            yield taken
