"""Numbered results that come in any order, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["InOrder"]

T = TypeVar("T")


class InOrder(Generic[T]):
    """Keeps results until those before them have come; the first has number 0."""

    def __init__(self) -> None:
        self._waiting: dict[int, T] = {}
        self._following = 0

    def add(self, number: int, result: T) -> Iterator[T]:
        """All results that are next in the order, now that this one has come."""
        self._waiting[number] = result
        while self._following in self._waiting:
            yield self._waiting.pop(self._following)
            self._following += 1
