"""The head of a GGUF file: its metadata, and where each tensor lies.

gguf's own reader is not used because it trusts every length in the file: a corrupt count sends it
into an endless loop.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_names import MAGIC, parts_of
from edgespec_export.checkpoint.json_file import JsonValue

__all__ = ["GgufHeader", "GgufTensor", "read_gguf_header"]

_Item = TypeVar("_Item")

# numpy's names of GGUF's value types, by their numbers.
_SCALARS = {
    **dict(enumerate(["<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "|b1"])),
    **dict(enumerate(["<u8", "<i8", "<f8"], start=10)),
}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
# Models have about a hundred keys, up to some ten thousand tensors, and lists of up to 1.5 million
# values together (tokens, their scores and kinds, merges).
MOST_KEYS, MOST_TENSORS, MOST_VALUES, MOST_DIMENSIONS = 10_000, 200_000, 10_000_000, 8


@dataclass(frozen=True)
class GgufTensor:
    """Where a tensor lies and how it is stored.

    Attributes:
        shape: rows first, as numpy has it (the file has it the other way round).
        file: the file that has it.
        kind: ggml's type of its values.
        offset, bytes: the position of its first byte in the file, and its size.
    """

    file: Path
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    bytes: int


@dataclass(frozen=True)
class GgufHeader:
    """Everything in a GGUF file except the tensors' values."""

    path: Path
    metadata: dict[str, JsonValue]
    tensors: dict[str, GgufTensor]


def read_gguf_header(path: Path) -> GgufHeader:
    """Reads a GGUF file's head, and checks that every tensor lies inside the file.

    Of a file that was split, the heads of all parts: metadata are those of the first.

    Raises:
        EdgespecError: no such file, not a GGUF file of version 2 or 3, cut off or corrupt, a key
            or a tensor is there twice, or a part is not there.
    """
    if not path.is_file():
        return _read(path)
    heads = [_read(part) for part in parts_of(path)]
    count = heads[0].metadata.get("split.count", 1)
    if isinstance(count, int) and count > 1 and count != len(heads):
        raise EdgespecError(
            f"{path}: is a part of a file that was split into {count}, and its name does not say "
            "which others there are: join them with llama-gguf-split --merge"
        )
    tensors: dict[str, GgufTensor] = {}
    for head in heads:
        again = sorted(tensors.keys() & head.tensors.keys())
        if again:
            raise EdgespecError(f"{head.path}: has tensor {shortened(again[0])} of another part")
        tensors |= head.tensors
    return GgufHeader(heads[0].path, heads[0].metadata, tensors)


def _read(path: Path) -> GgufHeader:
    """The head of one file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise EdgespecError(f"{path}: is not a GGUF file: it does not start with 'GGUF'")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Head(path, data, size).read()
    except OSError as error:
        raise EdgespecError(f"{path}: cannot be read ({error.strerror})") from error


class _Head:
    """Reads forward through the head of one file."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self._path, self._data, self._size, self._at = path, data, size, 4
        self._values = 0  # in lists, so far

    def read(self) -> GgufHeader:
        version = self._integer("<u4")
        if version not in _VERSIONS:
            raise self._corrupt(f"version {version}, not 2 or 3 (or big-endian): convert it again")
        tensors, entries = self._integer("<u8"), self._integer("<u8")
        self._check_count("keys", entries, MOST_KEYS)
        self._check_count("tensors", tensors, MOST_TENSORS)
        metadata: dict[str, JsonValue] = {}
        for _ in range(entries):
            key = self._string()
            if key in metadata:
                raise self._corrupt(f"it has key {shortened(key)} twice")
            metadata[key] = self._value(self._integer("<u4"))
        records = self._many(tensors, self._tensor)
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._corrupt(f"general.alignment is {shortened(alignment)}")
        start = -(-self._at // alignment) * alignment
        located: dict[str, GgufTensor] = {}
        for name, shape, kind, offset in records:
            if name in located:
                raise self._corrupt(f"it names tensor {shortened(name)} twice")
            located[name] = self._located(name, start, shape, kind, offset)
        return GgufHeader(self._path, metadata, located)

    def _located(
        self, name: str, start: int, shape: tuple[int, ...], kind: int, offset: int
    ) -> GgufTensor:
        try:
            ggml = GGMLQuantizationType(kind)
            block, block_bytes = GGML_QUANT_SIZES[ggml]
        except (ValueError, KeyError) as error:
            raise EdgespecError(
                f"{self._path}: {shortened(name)} has ggml type {kind}, unknown to this gguf "
                "package: pip install --upgrade gguf"
            ) from error
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if shape and shape[-1] % block:
            raise self._corrupt(
                f"{shortened(name)} has rows of {shape[-1]}, not a multiple of {block}"
            )
        tensor = GgufTensor(self._path, shape, ggml, start + offset, count // block * block_bytes)
        if tensor.offset + tensor.bytes > self._size:
            raise self._corrupt(
                f"{shortened(name)} ends at byte {tensor.offset + tensor.bytes} of {self._size}"
            )
        return tensor

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        dimensions = self._integer("<u4")
        self._check_count("dimensions of a tensor", dimensions, MOST_DIMENSIONS)
        shape = tuple(reversed(self._many(dimensions, lambda: self._integer("<u8"))))
        return name, shape, self._integer("<u4"), self._integer("<u8")

    def _value(self, kind: int) -> JsonValue:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(self._integer("<u4"), self._integer("<u8"))
        return self._number(self._scalar(kind))

    def _array(self, kind: int, count: int) -> list[JsonValue]:
        self._values += count
        self._check_count("values in lists", self._values, MOST_VALUES)
        if kind == _STRING:
            return list(self._many(count, self._string))
        dtype = np.dtype(self._scalar(kind))
        return list(np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist())

    def _scalar(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._corrupt(f"a value of unknown type {kind} near byte {self._at}")
        return _SCALARS[kind]

    def _check_count(self, what: str, count: int, limit: int) -> None:
        """Raises EdgespecError where reading so many would take minutes or all memory."""
        if count > limit:
            raise self._corrupt(f"the number of {what} is {count}; the limit is {limit}")

    def _many(self, count: int, read: Callable[[], _Item]) -> list[_Item]:
        # Every item takes bytes, so a wrong count fails at the end of the file.
        return [read() for _ in range(count)]

    def _integer(self, dtype: str) -> int:
        return int(self._number(dtype))

    def _number(self, dtype: str) -> int | float | bool:
        kind = np.dtype(dtype)
        (number,) = np.frombuffer(self._take(kind.itemsize), kind).tolist()
        assert isinstance(number, int | float)  # of `_SCALARS`
        return number

    def _string(self) -> str:
        (length,) = struct.unpack("<Q", self._take(8))
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._corrupt(f"text near byte {self._at} is not UTF-8") from error

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > self._size:
            raise self._corrupt(f"the head needs byte {end} of {self._size}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _corrupt(self, what: str) -> EdgespecError:
        return EdgespecError(f"{self._path}: cut off or corrupt ({what}): download it again")
