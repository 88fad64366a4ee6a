"""Weights in safetensors files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, cast

import ml_dtypes  # registers bfloat16 with numpy; safetensors asks for it by name
import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from edgespec.errors import EdgespecError, one_line, shortened
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue
from edgespec_export.checkpoint.shard_index import read_shard_index
from edgespec_export.checkpoint.weights import Tensor, missing_tensor

__all__ = ["Safetensors"]

_DTYPES: dict[str, type[np.generic]] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,  # of token ids; no weights are stored so
}
# Parts of quantized matrices.
_STORED_DTYPES: dict[str, type[np.generic]] = {
    **_DTYPES,
    "I32": np.int32,
    "U32": np.uint32,
    "I8": np.int8,
    "U8": np.uint8,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}


class _Record(TypedDict):
    """A tensor in a safetensors header; the library has checked it."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


@dataclass(frozen=True)
class _Stored:
    """Where and how a tensor is stored; `dtype` is safetensors' code, such as "BF16".

    Attributes:
        offset: of its first byte in the file.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Safetensors:
    """A `model.safetensors`, or the shards of a `model.safetensors.index.json`.

    The constructor reads only headers; `read` copies one tensor out of its file.
    """

    def __init__(self, path: Path) -> None:
        """Reads the header of every file.

        Args:
            path: the file, or the index.

        Raises:
            EdgespecError: a file is missing, cut off or corrupt, names a tensor twice, or lacks a
                tensor of the index.
        """
        self._path = path
        self._tensors = _sharded(path) if path.suffix == ".json" else _header(path)

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, from the header."""
        return self._stored(name).shape

    def read(self, name: str) -> Tensor:
        """The tensor: float32, float16, bfloat16 or int64 as stored, C-contiguous.

        Raises:
            EdgespecError: no such tensor, or another dtype.
        """
        stored = self._readable(name)
        with _one_line_errors(stored.file), safe_open(stored.file, framework="numpy") as file:
            return np.asarray(file.get_tensor(name), _DTYPES[stored.dtype], order="C")

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `read`; nothing else is copied out of the file."""
        stored = self._readable(name)
        with _one_line_errors(stored.file), safe_open(stored.file, framework="numpy") as file:
            rows = file.get_slice(name)[start:stop]
            return np.asarray(rows, _DTYPES[stored.dtype], order="C")

    def dtype(self, name: str) -> str:
        """How the tensor is stored, as safetensors calls it: "BF16", "F8_E4M3", …"""
        return self._stored(name).dtype

    def read_part(self, name: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Rows of a part of a quantized matrix, as stored: whole numbers and float8, too.

        The library's numpy has no float8, so the bytes are read without it.

        Raises:
            EdgespecError: no such tensor, or another dtype.
        """
        stored = self._stored(name)
        dtype = _STORED_DTYPES.get(stored.dtype)
        if dtype is None:
            raise EdgespecError(f"{stored.file}: {name} is stored as {stored.dtype}")
        rows, *inner = stored.shape or (1,)
        stop = rows if stop is None else min(stop, rows)
        row = math.prod(inner)
        offset = stored.offset + start * row * np.dtype(dtype).itemsize
        values = np.fromfile(stored.file, dtype, (stop - start) * row, offset=offset)
        if values.size != (stop - start) * row:
            raise EdgespecError(f"{stored.file}: {name} is cut off: the file changed while read")
        return values.reshape((stop - start, *inner) if stored.shape else ())

    def _readable(self, name: str) -> _Stored:
        stored = self._stored(name)
        if stored.dtype not in _DTYPES:
            raise EdgespecError(
                f"{stored.file}: {name} is stored as {stored.dtype}, which is not one of "
                f"{', '.join(_DTYPES)}: take the model's unquantized checkpoint"
            )
        return stored

    def _stored(self, name: str) -> _Stored:
        if name not in self._tensors:
            raise missing_tensor(self._path, name, self._tensors)
        return self._tensors[name]


def _sharded(index: Path) -> dict[str, _Stored]:
    """The tensors that an index names, each from the header of its shard."""
    shards = read_shard_index(index)
    headers = {path: _header(path) for path in sorted(set(shards.values()))}
    for name, path in shards.items():
        if name not in headers[path]:
            raise EdgespecError(
                f"{path}: lacks {shortened(name)}, which {index.name} says is there"
            )
    return {name: headers[path][name] for name, path in shards.items()}


def _header(path: Path) -> dict[str, _Stored]:
    """The tensors of one file.

    The library checks the header but keeps the last of two tensors with one name, so the header is
    parsed again.
    """
    with _one_line_errors(path):
        with safe_open(path, framework="numpy"):
            pass
        with path.open("rb") as file:
            text = file.read(int.from_bytes(file.read(8), "little"))
            data = file.tell()
        table = json.loads(text, object_pairs_hook=partial(_without_duplicates, path))
    records = cast("dict[str, _Record]", table)
    return {
        name: _Stored(
            path, record["dtype"], tuple(record["shape"]), data + record["data_offsets"][0]
        )
        for name, record in records.items()
        if name != "__metadata__"
    }


def _without_duplicates(path: Path, pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """The object of some key-value pairs; refuses a key that is there twice."""
    table: JsonObject = {}
    for key, value in pairs:
        if key in table:
            raise EdgespecError(
                f"{path}: its header names {shortened(key)} twice: download the file again"
            )
        table[key] = value
    return table


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Replaces an error of the library by one line."""
    try:
        yield
    except EdgespecError:
        raise
    except FileNotFoundError as error:
        raise EdgespecError(f"{path}: no such file") from error
    except Exception as error:  # SafetensorError is a bare Exception, and not the only one
        reason = one_line(error)
        raise EdgespecError(
            f"{path}: cut off or not safetensors ({reason}): download it again"
        ) from error
