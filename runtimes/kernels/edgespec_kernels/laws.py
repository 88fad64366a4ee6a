"""Arithmetic over a vocabulary, on one thread, for the loop around the models."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec_kernels import library

__all__ = ["Laws"]

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


class Laws:
    """Functions of contiguous rows of float32."""

    def __init__(self) -> None:
        functions = ctypes.CDLL(str(library()))

        def function(name: str, result: Any, *arguments: Any) -> Any:
            found = getattr(functions, f"edgespec_{name}")
            found.restype, found.argtypes = result, arguments
            return found

        pointer, count = ctypes.c_void_p, ctypes.c_int64
        number, double = ctypes.c_float, ctypes.c_double
        self._largest = function("largest", count, pointer, count)
        self._weigh = function("weigh", double, pointer, count, number, number, pointer)
        self._draw = function("draw", count, pointer, count, double)
        self._excess = function(
            "excess", None, pointer, count, number, pointer, pointer, count, pointer
        )

    def largest(self, row: Floats) -> int:
        """The first place of the largest number, or of one that is none."""
        place: int = self._largest(row.ctypes.data, len(row))
        return place

    def weigh(self, row: Floats, highest: float, temperature: float, out: Floats) -> float:
        """out = e^((row - highest) / temperature); returns Σ out."""
        total: float = self._weigh(
            row.ctypes.data, len(row), highest, 1 / temperature, out.ctypes.data
        )
        return total

    def draw(self, weights: Floats, uniform: float) -> int:
        """The first place up to which more than this share of all weight lies."""
        place: int = self._draw(weights.ctypes.data, len(weights), uniform)
        return place

    def excess(self, p: Floats, factor: Any, q: npt.NDArray[Any], places: Places) -> Floats:
        """max(0, factor · p - q): q stands at these places of p, nowhere if they are behind it."""
        q, places = np.ascontiguousarray(q, np.float32), np.ascontiguousarray(places)
        left = np.empty_like(p)
        self._excess(
            p.ctypes.data,
            len(p),
            float(factor),
            q.ctypes.data,
            places.ctypes.data,
            len(q),
            left.ctypes.data,
        )
        return left
