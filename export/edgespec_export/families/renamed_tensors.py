"""A checkpoint whose tensors have other names than its family's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, missing_tensor, read_rows

__all__ = ["RenamedTensors"]


class RenamedTensors:
    """The checkpoint by its family's names.

    Args:
        family_name: the family's name of a tensor, from the checkpoint's.
    """

    def __init__(self, weights: Weights, family_name: Callable[[str], str]) -> None:
        self._weights = weights
        self._stored = {family_name(name): name for name in weights.names()}

    def names(self) -> list[str]:
        return sorted(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(self._name(name))

    def read(self, name: str) -> npt.NDArray[np.generic]:
        return self._weights.read(self._name(name))

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        return read_rows(self._weights, self._name(name), start, stop)

    def _name(self, name: str) -> str:
        if name not in self._stored:
            raise missing_tensor("the checkpoint", name, self._stored)
        return self._stored[name]
