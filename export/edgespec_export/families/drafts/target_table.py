"""The weights of a draft that takes its target's embedding, or its head."""

from __future__ import annotations

from collections.abc import Mapping

from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["WithTargetTable"]


class WithTargetTable:
    """The `Weights` of a draft, with tables of its target.

    Args:
        own, target: of the draft, and of its target.
        tables: for each name in the draft, that in the target.
    """

    def __init__(self, own: Weights, target: Weights, tables: Mapping[str, str]) -> None:
        self._own, self._target, self._tables = own, target, tables

    def names(self) -> list[str]:
        return sorted({*self._own.names(), *self._tables})

    def shape(self, name: str) -> tuple[int, ...]:
        weights, stored = self._stored(name)
        return weights.shape(stored)

    def read(self, name: str) -> Tensor:
        weights, stored = self._stored(name)
        return weights.read(stored)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        return read_rows(*self._stored(name), start, stop)

    def _stored(self, name: str) -> tuple[Weights, str]:
        """Where a tensor is, and its name there."""
        if name in self._tables:
            return self._target, self._tables[name]
        return self._own, name
