"""The weights of a draft whose embedding or head is that of another model: all rows or some."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["WithTargetTable"]

ROWS = 256  # read at once: those between them, which the draft lacks, are read too


class WithTargetTable:
    """The `Weights` of a draft, with tables of its target.

    Args:
        own, target: of the draft, and of its target; the same for a draft that has some rows of its
            own table.
        tables: for each name in the draft, that in the target.
        rows: of the target's tables, increasing; None: all.
    """

    def __init__(
        self,
        own: Weights,
        target: Weights,
        tables: Mapping[str, str],
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._own, self._target, self._tables, self._rows = own, target, tables, rows

    def names(self) -> list[str]:
        return sorted({*self._own.names(), *self._tables})

    def shape(self, name: str) -> tuple[int, ...]:
        weights, stored = self._stored(name)
        shape = weights.shape(stored)
        if self._rows is None or name not in self._tables:
            return shape
        return (len(self._rows), *shape[1:])

    def read(self, name: str) -> Tensor:
        weights, stored = self._stored(name)
        if self._rows is None or name not in self._tables:
            return weights.read(stored)
        blocks = range(0, len(self._rows), ROWS)
        return np.concatenate([self._chosen(name, at, at + ROWS) for at in blocks])

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        if self._rows is None or name not in self._tables:
            return read_rows(*self._stored(name), start, stop)
        return self._chosen(name, start, stop)

    def _chosen(self, name: str, start: int, stop: int) -> Tensor:
        """Some of the target's rows that the draft has."""
        assert self._rows is not None
        rows = self._rows[start:stop]
        block = read_rows(*self._stored(name), int(rows[0]), int(rows[-1]) + 1)
        chosen: Tensor = block.take(rows - rows[0], axis=0)
        return chosen

    def _stored(self, name: str) -> tuple[Weights, str]:
        """Where a tensor is, and its name there."""
        if name in self._tables:
            return self._target, self._tables[name]
        return self._own, name
