"""A matrix that another program quantized, and the file that its parts are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Blocks", "Float", "Found", "Matrix", "Parts", "modules"]

Float = npt.NDArray[np.float32]


class Parts(Protocol):
    """The tensors of a checkpoint as they are stored."""

    def names(self) -> list[str]: ...

    def __contains__(self, name: object) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def dtype(self, name: str) -> str:
        """As safetensors calls it: "I32", "F8_E4M3", …"""
        ...

    def read_part(self, name: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Rows of a tensor, in the type that it is stored in."""
        ...


class Matrix(Protocol):
    """A quantized matrix [out, in]."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, start: int, stop: int) -> Float:
        """Rows [stop - start, in], dequantized in float32."""
        ...


@dataclass(frozen=True)
class Found:
    """What a kind of source finds in a checkpoint.

    Attributes:
        matrices: by the names that they have without quantization ("….weight").
        parts: names of the tensors that these are made of, and of those that only say how
            activations were rounded.
    """

    matrices: Mapping[str, Matrix]
    parts: frozenset[str]


@dataclass(frozen=True)
class Blocks:
    """A matrix whose blocks have a scale each, and maybe a zero point: (code - zero) · scale.

    Attributes:
        shape: [out, in].
        codes: rows start to stop of the codes, [stop - start, in].
        scales, zeros: of the blocks, [block rows, block columns]; called when rows are read.
        block_rows: rows of a block.
        columns: the block column of each input, [in].
    """

    shape: tuple[int, ...]
    codes: Callable[[int, int], npt.NDArray[Any]]
    scales: Callable[[], npt.NDArray[Any]]
    zeros: Callable[[], npt.NDArray[Any]] | None
    block_rows: int
    columns: npt.NDArray[np.int64]

    def rows(self, start: int, stop: int) -> Float:
        blocks = np.arange(start, stop) // self.block_rows
        values = self.codes(start, stop).astype(np.float32)
        if self.zeros is not None:
            values -= self._of_inputs(self.zeros(), blocks)
        return values * self._of_inputs(self.scales(), blocks)

    def _of_inputs(self, grid: npt.NDArray[Any], blocks: npt.NDArray[np.int64]) -> Float:
        """[rows, in]: the number of each row and input's block."""
        return grid.astype(np.float32)[blocks][:, self.columns]


def modules(parts: Parts, mark: str) -> Iterator[str]:
    """The names of modules that have a tensor `mark`."""
    for name in parts.names():
        if name.endswith(f".{mark}"):
            yield name.removesuffix(f".{mark}")
