"""Tensors on their way from a checkpoint into the external data of ONNX graphs, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes  # noqa: F401 - teaches numpy the name bfloat16
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.weights import Weights

__all__ = ["WeightFile", "journal_of"]

# Offsets a memory map can start at; ONNX Runtime maps external data instead of copying it.
PAGE = 4096


class WeightFile:
    """Writes each tensor once, however many graphs use it.

    At most one tensor is in memory, so a model larger than the machine's memory can be exported.
    A journal beside the file names the tensors that are finished: an export that was interrupted
    goes on behind the last of them.

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
        finished = self._finished()
        self._file = self._path.open("r+b" if finished else "wb")
        self._file.seek(finished)
        self._file.truncate()
        self._journal = journal_of(self._path).open("a", encoding="utf-8")
        return self

    def _finished(self) -> int:
        """Takes over what an interrupted export wrote; returns where it ends."""
        journal = journal_of(self._path)
        end = 0
        if journal.is_file() and self._path.is_file():
            *lines, _cut_short = journal.read_text(encoding="utf-8").split("\n")
            for record in map(json.loads, lines):
                dtype = np.dtype(record["dtype"])
                self._written[record["name"]] = self._tensor(
                    record["name"], record["offset"], dtype, record["shape"]
                )
                self._unread.difference_update(record["read"])
                end = record["offset"] + self._written[record["name"]].nbytes
                self._progress(self._written[record["name"]].nbytes)
        return end

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        self._journal.close()

    def __contains__(self, name: object) -> bool:
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
            unread = self.unread
            array = make()
            self._written[name] = self._write(name, array, sorted(unread - self._unread))
        return self._written[name]

    def _write(self, name: str, array: npt.NDArray[Any], read: list[str]) -> ir.ExternalTensor:
        self._file.seek(-self._file.tell() % PAGE, 1)
        offset = self._file.tell()
        self._file.write(array.reshape(-1).view(np.uint8).data)
        self._file.flush()
        record = {
            "name": name,
            "offset": offset,
            "dtype": array.dtype.name,
            "shape": array.shape,
            "read": read,
        }
        self._journal.write(json.dumps(record) + "\n")
        self._journal.flush()
        self._progress(array.nbytes)
        return self._tensor(name, offset, array.dtype, array.shape)

    def _tensor(
        self, name: str, offset: int, dtype: np.dtype[Any], shape: Sequence[int]
    ) -> ir.ExternalTensor:
        return ir.ExternalTensor(
            self._path.name,
            offset,
            int(np.prod(shape)) * dtype.itemsize,
            ir.DataType.from_numpy(dtype),
            shape=ir.Shape(shape),
            name=name,
            base_dir=self._path.parent,
        )


def journal_of(path: Path) -> Path:
    """Of a weight file; it is no part of an exported pair."""
    return path.with_suffix(".journal")
