"""Queries and keys whose numbers are stored in another order than full rotary positions have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows

__all__ = ["InRotaryOrder", "neighbours", "rotary_halves"]


def rotary_halves(size: int, rotated: int) -> npt.NDArray[np.intp]:
    """Indices [size] where number i of the first `rotated` forms a pair with i + rotated / 2."""
    first, second, rest = np.split(np.arange(size), [rotated // 2, rotated])
    return _with_rest(first, second, rest)


def neighbours(size: int, rotated: int) -> npt.NDArray[np.intp]:
    """Indices [size] where neighbours of the first `rotated` numbers form pairs."""
    turned, rest = np.split(np.arange(size), [rotated])
    return _with_rest(turned[0::2], turned[1::2], rest)


def _with_rest(
    first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], rest: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Pairs half a head apart; numbers that are not rotated follow in both halves."""
    left, right = np.split(rest, 2)
    return np.concatenate([first, left, second, right])


class InRotaryOrder:
    """The checkpoint with each head's numbers in the order of full rotary positions.

    There number i forms a pair with i + size / 2. Queries and keys have the same order, so scores
    stay.

    Args:
        order: of a head's numbers, [size].
        heads: how many heads of queries or keys the rows of a projection begin with, by the
            second to last part of a tensor's name.
    """

    def __init__(
        self, weights: Weights, order: npt.NDArray[np.intp], heads: Mapping[str, int]
    ) -> None:
        self._weights = weights
        self._order = order
        self._heads = heads
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(name)
        count = self._count(name)
        if count is None:
            return tensor
        size = len(self._order)
        rows = np.arange(len(tensor))
        rows[: count * size] = (size * np.arange(count)[:, None] + self._order).reshape(-1)
        return tensor[rows]

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        if self._count(name) is None:
            return read_rows(self._weights, name, start, stop)
        return self.read(name)[start:stop]

    def _count(self, name: str) -> int | None:
        """How many heads a tensor begins with whose numbers are reordered."""
        return self._heads.get(name.split(".")[-2]) if "." in name else None
