"""The tensors of a checkpoint, read one at a time: the model is never in memory as a whole."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened

__all__ = ["Tensor", "Weights", "missing_tensor"]

# float32, float16 or `ml_dtypes.bfloat16`: numpy has no narrower type for the three.
Tensor: TypeAlias = npt.NDArray[np.generic]


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


def missing_tensor(where: Path, name: str, names: Iterable[str]) -> EdgespecError:
    """The error for a tensor that `where` lacks; it lists up to three similar names."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    hint = f"close: {', '.join(close)}" if close else "no similar name"
    return EdgespecError(f"{where}: has no tensor {shortened(name)} ({hint})")
