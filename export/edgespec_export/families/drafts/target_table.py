"""The weights of a draft that takes its target's embedding."""

from __future__ import annotations

from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["WithTargetTable"]


class WithTargetTable:
    """The `Weights` of a draft, with the embedding of its target.

    Args:
        own, target: of the draft, and of its target.
        name: the embedding's in the draft.
        table: its name in the target.
    """

    def __init__(self, own: Weights, target: Weights, *, name: str, table: str) -> None:
        self._own, self._target, self._name, self._table = own, target, name, table

    def names(self) -> list[str]:
        return sorted([*self._own.names(), self._name])

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
        return (self._target, self._table) if name == self._name else (self._own, name)
