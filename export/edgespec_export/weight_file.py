"""Tensors on their way from a checkpoint into the external data of ONNX graphs, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.weights import Weights

__all__ = ["WeightFile"]

# Offsets a memory map can start at; ONNX Runtime maps external data instead of copying it.
PAGE = 4096


class WeightFile:
    """Writes each tensor once, however many graphs use it.

    At most one tensor is in memory, so a model larger than the machine's memory can be exported.

    Args:
        path: the file to write; graphs beside it refer to it by its name.
        checkpoint: where the tensors are read from.
        progress: called with the number of bytes of each tensor written.
    """

    def __init__(
        self, path: Path, checkpoint: Weights, progress: Callable[[int], object] = lambda _: None
    ) -> None:
        self._path = path
        self._checkpoint = checkpoint
        self._progress = progress
        self._names = set(checkpoint.names())
        self._unread = set(self._names)
        self._written: dict[str, ir.ExternalTensor] = {}

    def __enter__(self) -> WeightFile:
        self._file = self._path.open("wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        """Whether the checkpoint has a tensor of this name."""
        return name in self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor of the checkpoint."""
        return self._checkpoint.shape(name)

    def checkpoint_tensor(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor of the checkpoint as float32."""
        self._unread.discard(name)
        return np.ascontiguousarray(self._checkpoint.read(name), np.float32)

    @property
    def unread(self) -> frozenset[str]:
        """Tensors of the checkpoint that nobody has asked for."""
        return frozenset(self._unread)

    def tensor(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> ir.ExternalTensor:
        """The tensor `name`; the first to ask has `make()` written to the file."""
        if name not in self._written:
            self._written[name] = self._write(name, make())
        return self._written[name]

    def _write(self, name: str, array: npt.NDArray[Any]) -> ir.ExternalTensor:
        self._file.seek(-self._file.tell() % PAGE, 1)
        offset = self._file.tell()
        self._file.write(array.reshape(-1).view(np.uint8).data)
        self._progress(array.nbytes)
        return ir.ExternalTensor(
            self._path.name,
            offset,
            array.nbytes,
            ir.DataType.from_numpy(array.dtype),
            shape=ir.Shape(array.shape),
            name=name,
            base_dir=self._path.parent,
        )
