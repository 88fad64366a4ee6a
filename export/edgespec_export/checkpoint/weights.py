"""The tensors of a checkpoint, read one at a time: the model is never in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.torch_file import TorchBin

__all__ = ["Safetensors", "TorchBin", "Weights", "open_weights"]

_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_TORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")


class Weights(Protocol):
    """The tensors of a checkpoint, by the names the checkpoint gives them."""

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, without reading it.

        Raises:
            EdgespecError: no such tensor.
        """
        ...

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor, C-contiguous and not to be written to.

        float32, float16 or `ml_dtypes.bfloat16` as stored; float32 if it was quantized. Values are
        not checked: a NaN in the file comes back as one.

        Raises:
            EdgespecError: no such tensor (the line says which names come close), or a stored dtype
                that is none of these.
        """
        ...


def open_weights(folder: Path) -> Weights:
    """The weights in a checkpoint folder; safetensors if there are any.

    Raises:
        EdgespecError: there are none, or their files are incomplete or corrupt.
    """
    for name in _SAFETENSORS:
        if (folder / name).is_file():
            return Safetensors(folder / name)
    for name in _TORCH:
        if (folder / name).is_file():
            return TorchBin(folder / name)
    raise EdgespecError(f"{folder}: has no weights; looked for {', '.join(_SAFETENSORS + _TORCH)}")
