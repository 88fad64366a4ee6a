"""Tensors on their way from a checkpoint into the external data of ONNX graphs, one at a time."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes  # also teaches numpy the names bfloat16 and int4
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights, row_blocks
from edgespec_export.onnx_graph.row_stream import Array, RowStream

__all__ = ["WeightFile", "journal_of"]

# Offsets a memory map can start at; ONNX Runtime maps external data instead of copying it.
PAGE = 4096


class WeightFile:
    """Writes each tensor once, however many graphs use it.

    At most one matrix, or a block of a table, is in memory, so a model larger than the machine's
    memory can be exported.
    A journal next to the file names the finished tensors: after an interruption an export resumes
    after the last of them.

    Args:
        path: the file to write; graphs in the same folder refer to it by its name.
        checkpoint: where the tensors are read from.
        progress: called for each tensor written, with the bytes (as float32) of the checkpoint's
            tensors that it was made of.
        shard_bytes: no file becomes larger. `path` is the first, "weights-2.data" follows
            "weights.data". A tensor that is larger is stored as pieces.
    """

    def __init__(
        self,
        path: Path,
        checkpoint: Weights,
        progress: Callable[[int], object] = lambda _: None,
        shard_bytes: int = sys.maxsize,
    ) -> None:
        self._path = path
        self._checkpoint = checkpoint
        self._progress = progress
        self._shard_bytes = shard_bytes
        self._names = set(checkpoint.names())
        self._unread = set(self._names)
        self._written: dict[str, list[ir.ExternalTensor]] = {}

    def __enter__(self) -> WeightFile:
        finished, (self._shard, end) = self._finished()
        self._file = self._shard_path(self._shard).open("r+b" if finished else "wb")
        self._file.seek(end)
        self._file.truncate()
        self._journal = journal_of(self._path).open("w", encoding="utf-8")
        self._journal.writelines(f"{line}\n" for line in finished)
        self._journal.flush()
        return self

    def _finished(self) -> tuple[list[str], tuple[int, int]]:
        """Takes over the tensors that an interrupted export wrote.

        Returns:
            The journal's lines about them, and the shard and the end of the last one. After a
            power cut the journal may name bytes that were never written, or have no lines at all.
        """
        journal = journal_of(self._path)
        lines: list[str] = []
        last = (1, 0)
        if journal.is_file():
            *told, _cut_short = journal.read_text(encoding="utf-8", errors="replace").split("\n")
            for line in told:
                record = _record(line)
                if record is None or not all(map(self._is_there, record["pieces"])):
                    break
                self._take_over(record)
                lines.append(line)
                last = (record["pieces"][-1]["shard"], record["pieces"][-1]["end"])
        return lines, last

    def _is_there(self, piece: dict[str, Any]) -> bool:
        path = self._shard_path(piece["shard"])
        return path.is_file() and int(piece["end"]) <= path.stat().st_size

    def _take_over(self, record: dict[str, Any]) -> None:
        self._written[record["name"]] = self._tensors(record)
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

    def checkpoint_rows(self, name: str) -> Iterator[npt.NDArray[np.float32]]:
        """`checkpoint_tensor` in blocks of rows, one below the other."""
        self._unread.discard(name)
        for block in row_blocks(self._checkpoint, name):
            yield np.ascontiguousarray(block, np.float32)

    def checkpoint_stream(self, name: str) -> RowStream:
        """`checkpoint_rows` as a tensor to write."""
        float32 = np.dtype(np.float32)
        return RowStream(self.shape(name), float32, self.checkpoint_rows(name))

    @property
    def unread(self) -> frozenset[str]:
        """Tensors of the checkpoint that no graph has read."""
        return frozenset(self._unread)

    def tensor(
        self, name: str, make: Callable[[], Array | RowStream]
    ) -> Sequence[ir.ExternalTensor]:
        """The tensor `name`, or its pieces, one below the other; the first call writes `make()`."""
        if name not in self._written:
            unread = self.unread
            made = make()
            stream = made if isinstance(made, RowStream) else RowStream.of(made)
            self._written[name] = self._write(name, stream, unread)
        return self._written[name]

    def _write(
        self, name: str, stream: RowStream, unread: frozenset[str]
    ) -> list[ir.ExternalTensor]:
        """Writes a tensor.

        Args:
            unread: tensors of the checkpoint that were not read before it was made.
        """
        pieces = [
            self._write_piece(shape, stream.dtype, blocks)
            for shape, blocks in stream.pieces(self._shard_bytes)
        ]
        read = sorted(unread - self._unread)
        record = {"name": name, "dtype": stream.dtype.name, "pieces": pieces, "read": read}
        self._journal.write(json.dumps(record) + "\n")
        self._journal.flush()
        self._progress(self._float32_bytes(read))
        return self._tensors(record)

    def _write_piece(
        self, shape: tuple[int, ...], dtype: np.dtype[np.generic], blocks: Iterable[Array]
    ) -> dict[str, Any]:
        is_packed = dtype == ml_dtypes.int4
        size = -(-math.prod(shape) // 2) if is_packed else math.prod(shape) * dtype.itemsize
        offset = self._file.tell() + -self._file.tell() % PAGE
        if offset and offset + size > self._shard_bytes:
            self._file.close()
            self._shard += 1
            self._file = self._shard_path(self._shard).open("wb")
            offset = 0
        self._file.seek(offset)
        for block in blocks:
            flat = block.reshape(-1).view(np.uint8)
            self._file.write((_packed(flat) if is_packed else flat).data)
        self._file.flush()
        end = offset + size
        return {"shard": self._shard, "offset": offset, "end": end, "shape": shape}

    def _shard_path(self, shard: int) -> Path:
        first = self._path
        return first if shard == 1 else first.with_stem(f"{first.stem}-{shard}")

    def _float32_bytes(self, names: Sequence[str]) -> int:
        """Bytes of the checkpoint's tensors as float32."""
        return 4 * sum(math.prod(self._checkpoint.shape(name)) for name in names)

    def _tensors(self, record: dict[str, Any]) -> list[ir.ExternalTensor]:
        name, pieces = record["name"], record["pieces"]
        names = [name] if len(pieces) == 1 else [f"{name}.{i}" for i in range(len(pieces))]
        return [
            ir.ExternalTensor(
                self._shard_path(piece["shard"]).name,
                piece["offset"],
                piece["end"] - piece["offset"],
                ir.DataType.from_numpy(np.dtype(record["dtype"])),
                shape=ir.Shape(piece["shape"]),
                name=name,
                base_dir=self._path.parent,
            )
            for name, piece in zip(names, pieces, strict=True)
        ]


def _packed(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Numbers of 4 bits, two in a byte, the first in its lower half: those of a whole tensor."""
    numbers = np.concatenate([numbers, np.zeros(len(numbers) % 2, np.uint8)])
    packed: npt.NDArray[np.uint8] = (numbers[::2] & np.uint8(15)) | (numbers[1::2] << np.uint8(4))
    return packed


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "pieces" in record else None


def journal_of(path: Path) -> Path:
    """The journal of a weight file; it is not part of an exported pair."""
    return path.with_suffix(".journal")
