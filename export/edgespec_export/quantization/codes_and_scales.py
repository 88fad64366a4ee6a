"""Codes and scales of a table, rounded and written block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from edgespec_export.onnx_graph.row_stream import Array, RowStream

__all__ = ["CodesAndScales"]


class CodesAndScales:
    """The two tensors of a table in few bits: only its scales are in memory as a whole.

    Args:
        shape, dtype: of the codes.
        rounded: makes the codes and scales of each block of rows.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        rounded: Callable[[], Iterator[tuple[Array, Array]]],
    ) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._rounded = rounded
        self._scales: Array | None = None

    def codes(self) -> RowStream:
        return RowStream(self._shape, self._dtype, self._blocks())

    def scales(self) -> Array:
        """Where an interrupted export had written the codes, the table is rounded once more."""
        if self._scales is None:
            for _ in self._blocks():
                pass
        assert self._scales is not None
        return self._scales

    def _blocks(self) -> Iterator[Array]:
        scales = []
        for codes, scale in self._rounded():
            scales.append(scale)
            yield codes
        self._scales = np.concatenate(scales)
