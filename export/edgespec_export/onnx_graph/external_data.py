"""Tensors on their way from a checkpoint into the external data of ONNX graphs, one at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes  # noqa: F401 - teaches numpy the name bfloat16
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights

__all__ = ["Array", "WeightFile", "journal_of"]

Array = npt.NDArray[np.generic]

# Offsets a memory map can start at; ONNX Runtime maps external data instead of copying it.
PAGE = 4096


class WeightFile:
    """Writes each tensor once, however many graphs use it.

    At most one tensor is in memory, so a model larger than the machine's memory can be exported.
    A journal next to the file names the finished tensors: after an interruption an export resumes
    after the last of them.

    Args:
        path: the file to write; graphs in the same folder refer to it by its name.
        checkpoint: where the tensors are read from.
        progress: called for each tensor written, with the bytes (as float32) of the checkpoint's
            tensors that it was made of.
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
        finished, end = self._finished()
        self._file = self._path.open("r+b" if finished else "wb")
        self._file.seek(end)
        self._file.truncate()
        self._journal = journal_of(self._path).open("w", encoding="utf-8")
        self._journal.writelines(f"{line}\n" for line in finished)
        self._journal.flush()
        return self

    def _finished(self) -> tuple[list[str], int]:
        """Takes over the tensors that an interrupted export wrote.

        Returns:
            The journal's lines about them, and the end of the last one in the file. After a power
            cut the journal may name bytes that were never written, or have no lines at all.
        """
        journal = journal_of(self._path)
        lines: list[str] = []
        end = 0
        if journal.is_file() and self._path.is_file():
            size = self._path.stat().st_size
            *told, _cut_short = journal.read_text(encoding="utf-8", errors="replace").split("\n")
            for line in told:
                record = _record(line)
                if record is None or record["end"] > size:
                    break
                self._take_over(record)
                lines.append(line)
                end = record["end"]
        return lines, end

    def _take_over(self, record: dict[str, Any]) -> None:
        name, dtype = record["name"], np.dtype(record["dtype"])
        self._written[name] = self._tensor(name, record["offset"], dtype, record["shape"])
        self._unread.difference_update(record["read"])
        self._progress(self._float32_bytes(record["read"]))

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
        """Shape of a tensor of the checkpoint."""
        return self._checkpoint.shape(name)

    def checkpoint_tensor(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor of the checkpoint as float32."""
        self._unread.discard(name)
        return np.ascontiguousarray(self._checkpoint.read(name), np.float32)

    @property
    def unread(self) -> frozenset[str]:
        """Tensors of the checkpoint that no graph has read."""
        return frozenset(self._unread)

    def tensor(self, name: str, make: Callable[[], Array]) -> ir.ExternalTensor:
        """The tensor `name`; the first call writes `make()` to the file."""
        if name not in self._written:
            unread = self.unread
            array = make()
            self._written[name] = self._write(name, array, sorted(unread - self._unread))
        return self._written[name]

    def _write(self, name: str, array: Array, read: list[str]) -> ir.ExternalTensor:
        self._file.seek(-self._file.tell() % PAGE, 1)
        offset = self._file.tell()
        self._file.write(array.reshape(-1).view(np.uint8).data)
        self._file.flush()
        record = {
            "name": name,
            "offset": offset,
            "end": offset + array.nbytes,
            "dtype": array.dtype.name,
            "shape": array.shape,
            "read": read,
        }
        self._journal.write(json.dumps(record) + "\n")
        self._journal.flush()
        self._progress(self._float32_bytes(read))
        return self._tensor(name, offset, array.dtype, array.shape)

    def _float32_bytes(self, names: Sequence[str]) -> int:
        """Bytes of the checkpoint's tensors as float32."""
        return 4 * sum(math.prod(self._checkpoint.shape(name)) for name in names)

    def _tensor(
        self, name: str, offset: int, dtype: np.dtype[np.generic], shape: Sequence[int]
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


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "end" in record else None


def journal_of(path: Path) -> Path:
    """The journal of a weight file; it is not part of an exported pair."""
    return path.with_suffix(".journal")
