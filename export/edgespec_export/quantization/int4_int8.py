"""Weights in 4 bits that expand to those of `Int8`, and its activations in 8 bits.

A weight is code · step + offset in whole numbers of 8 bits, and they have one scale an output: two
roundings, as in Lin et al. (2024, arXiv 2405.04532). Sums stay whole numbers to the end, so that a
product is as fast as one of 8-bit weights. Rotated weights are on no grid of a file, so all are
rounded anew (docs/decisions/0061-int4-int8.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int4_int8_ops import (
    HADAMARD_INT4_INT8_MATMUL,
    INT4_INT8_MATMUL,
    RMS_NORM_HADAMARD_INT4_INT8_MATMUL,
    RMS_NORM_INT4_INT8_MATMUL,
)
from edgespec_export.quantization.gptq import HIGHEST, best_grids, rounded
from edgespec_export.quantization.grouped import WholeGroups, finite_tensor
from edgespec_export.quantization.int8 import Int8, Products

__all__ = ["Int4Int8"]

Float = npt.NDArray[np.float32]

LARGEST = 127
# Grids that are tried: the step that covers a group's range and smaller ones, and where in it.
STEPS, PLACES = 4, (0.0, 0.5, 1.0)
PRODUCTS = Products(
    INT4_INT8_MATMUL,
    RMS_NORM_INT4_INT8_MATMUL,
    HADAMARD_INT4_INT8_MATMUL,
    RMS_NORM_HADAMARD_INT4_INT8_MATMUL,
)


class Expandable(NamedTuple):
    """A matrix [out, in] in groups: a weight is (code · step + offset) · scale.

    Attributes:
        codes: uint8 [out, groups, group / 2], two in a byte, the first in its low half.
        steps, offsets: uint8 and int8 [out, groups].
        scale: float32 [out].
    """

    codes: npt.NDArray[np.uint8]
    steps: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int8]
    scale: Float


class Int4Int8(Int8):
    """`Int8` with matrices in 4 bits; tables are in 8, and so are matrices whose inputs are not a
    multiple of `GROUP`.

    Args:
        moments: XᵀX [in, in] of what a product reads, by the names of its matrices joined by "+";
            errors of rounding are then taken up by other weights. None rounds each weight to the
            nearest.
    """

    def __init__(self, moments: Callable[[str], Float] | None = None) -> None:
        self._moments = moments
        self._groups = WholeGroups("int4-int8")

    def products(self, g: Graph, names: Sequence[str]) -> Products:
        return PRODUCTS if self._groups.divide(g, names) else super().products(g, names)

    def matrix(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ...]:
        if not self._groups.divide(g, names):
            return super().matrix(g, names)
        name = f"{'+'.join(names)}.int4-int8"
        made = cache(lambda: self._rounded(g, names))
        return (
            g.stored(name, lambda: made().codes),
            g.stored(f"{name}.steps", lambda: made().steps),
            g.stored(f"{name}.offsets", lambda: made().offsets),
            g.stored(f"{name}.scale", lambda: made().scale),
        )

    def _rounded(self, g: Graph, names: Sequence[str]) -> Expandable:
        matrix = np.concatenate([finite_tensor(g, name) for name in names])
        return expandable(matrix, self._moments("+".join(names)) if self._moments else None)


def expandable(matrix: Float, moments: Float | None) -> Expandable:
    """A matrix [out, in], rounded with error feedback where there are moments.

    The largest weight of an output is ±127 steps of its scale.
    """
    scale = np.maximum(np.abs(matrix).max(axis=1) / np.float32(LARGEST), np.float32(1e-30))
    codes, steps, offsets = rounded(matrix / scale[:, None], moments, GROUP, whole_grids)
    return Expandable(codes, steps.astype(np.uint8), offsets.astype(np.int8), scale)


def whole_grids(columns: Float, importance: Float) -> tuple[Float, Float]:
    """The step and the offset of each group [out, groups, group] with the least squared error: of
    whole numbers, so that each code stands for one of 8 bits."""
    low, high = (end.clip(-LARGEST, LARGEST) for end in (columns.min(axis=2), columns.max(axis=2)))
    return best_grids(columns, importance, _tried(low, high - low))


def _tried(low: Float, extent: Float) -> Iterator[tuple[Float, Float]]:
    widest = np.ceil(extent / HIGHEST).clip(1, 2 * LARGEST // HIGHEST)
    for fewer in range(STEPS):
        step = (widest - fewer).clip(1)
        for place in PLACES:
            offset = np.rint(low + (extent - HIGHEST * step) * np.float32(place))
            yield step, offset.clip(-LARGEST, LARGEST - HIGHEST * step)
