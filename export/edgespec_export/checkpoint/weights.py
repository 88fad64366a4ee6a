"""The tensors of a checkpoint, read one at a time: the model is never in memory as a whole."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened

__all__ = ["BLOCK", "ReadsRows", "Tensor", "Weights", "missing_tensor", "read_rows", "row_blocks"]

# float32, float16 or `ml_dtypes.bfloat16`: numpy has no narrower type for the three.
Tensor: TypeAlias = npt.NDArray[np.generic]

BLOCK = 2**24  # numbers of a block of rows, 64 MB in float32


class Weights(Protocol):
    """The tensors of a checkpoint, by the names the checkpoint gives them."""

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, without reading its values.

        Raises:
            EdgespecError: no such tensor.
        """
        ...

    def read(self, name: str) -> Tensor:
        """The tensor, C-contiguous; callers must not write to it.

        float32, float16 or `ml_dtypes.bfloat16` as stored; float32 if it was quantized; int64 if it
        holds token ids. Values are not checked: NaN in the file stays NaN.

        Raises:
            EdgespecError: no such tensor (the line lists similar names), or another stored dtype.
        """
        ...


@runtime_checkable
class ReadsRows(Protocol):
    """Weights of which a part of a large tensor can be read alone."""

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `Weights.read(name)`, which has at least two axes."""
        ...


def read_rows(weights: Weights, name: str, start: int, stop: int) -> Tensor:
    """Rows of a tensor, alone if its source can."""
    if isinstance(weights, ReadsRows):
        return weights.read_rows(name, start, stop)
    return weights.read(name)[start:stop]


def row_blocks(weights: Weights, name: str) -> Iterator[Tensor]:
    """The rows of a tensor, at most `BLOCK` numbers at a time: a vocabulary's table in float32 can
    be larger than all that an export stores."""
    rows, *inner = weights.shape(name)
    count = max(1, BLOCK // math.prod(inner))
    for start in range(0, rows, count):
        yield read_rows(weights, name, start, min(start + count, rows))


def missing_tensor(where: Path | str, name: str, names: Iterable[str]) -> EdgespecError:
    """The error for a tensor that `where` lacks; it lists up to three similar names."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    hint = f"close: {', '.join(close)}" if close else "no similar name"
    return EdgespecError(f"{where}: has no tensor {shortened(name)} ({hint})")
