"""CTranslate2's `model.bin`: a list of named arrays, read one at a time, without ctranslate2.

All numbers are little-endian. A text is its length with a closing zero byte (uint16), then the
bytes. The file is: version (uint32), name of the model specification, its revision (uint32), the
number of arrays (uint32) and the arrays; from version 3 on, a number (uint32) and pairs of texts:
other names of arrays. An array is its name, rank (uint8), sizes (uint32 each), type (uint8), bytes
(uint32) and its values.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.weights import Tensor

__all__ = ["ModelBin", "StoredArray"]

VERSIONS = range(3, 7)  # with types and other names
DTYPES: dict[int, npt.DTypeLike] = {
    0: np.float32,
    1: np.int8,
    2: np.int16,
    3: np.int32,
    4: np.float16,
    5: ml_dtypes.bfloat16,
}
SCALE = "_scale"  # of an array of int8 or int16: a factor for each row


@dataclass(frozen=True)
class StoredArray:
    """Where an array is.

    Attributes:
        offset: of its first byte in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int


class ModelBin:
    """The arrays of a `model.bin`.

    Attributes:
        specification: the kind of model, such as "WhisperSpec".

    Raises:
        EdgespecError: it is no such file, is cut off, or of a version that is not known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays: dict[str, StoredArray] = {}
        with path.open("rb") as file:
            try:
                self._read(file)
            except (struct.error, UnicodeDecodeError, KeyError):
                raise EdgespecError(
                    f"{path}: is cut off, or no model.bin of CTranslate2: download it again"
                ) from None

    def _read(self, file: BinaryIO) -> None:
        (version,) = _unpacked(file, "<I")
        if version not in VERSIONS:
            raise EdgespecError(
                f"{self.path}: is of version {version} of CTranslate2's format, or another kind of "
                f"file; this reads {VERSIONS.start} to {VERSIONS.stop - 1}"
            )
        self.specification = _text(file)
        _revision, count = _unpacked(file, "<II")
        size = os.fstat(file.fileno()).st_size
        for _ in range(count):
            name = _text(file)
            (rank,) = _unpacked(file, "<B")
            shape = _unpacked(file, f"<{rank}I")
            kind, stored = _unpacked(file, "<BI")
            array = StoredArray(shape, np.dtype(DTYPES[kind]), file.tell())
            # The count of bytes is modulo 2³².
            bytes_ = int(np.prod(shape, dtype=object)) * array.dtype.itemsize
            if bytes_ % 2**32 != stored or array.offset + bytes_ > size:
                raise struct.error
            file.seek(array.offset + bytes_)
            self._arrays[name] = array
        (others,) = _unpacked(file, "<I")
        for _ in range(others):
            other, name = _text(file), _text(file)
            self._arrays[other] = self._arrays[name]

    def names(self) -> list[str]:
        """Every array's name, sorted."""
        return sorted(self._arrays)

    def array(self, name: str) -> StoredArray:
        """Where the array is.

        Raises:
            EdgespecError: there is no such array.
        """
        if name not in self._arrays:
            raise EdgespecError(f"{self.path}: has no array {shortened(name)}")
        return self._arrays[name]

    def read(self, name: str) -> Tensor:
        """The array: float32, float16 or bfloat16 as stored; float32 if it was quantized."""
        values = self._values(name)
        if values.dtype.kind != "i" or f"{name}{SCALE}" not in self._arrays:
            return values
        scales = self._values(f"{name}{SCALE}").astype(np.float32)
        rows = scales.reshape(-1, *[1] * (values.ndim - 1)) if scales.size > 1 else scales
        return np.asarray(values.astype(np.float32) / rows)

    def _values(self, name: str) -> Tensor:
        array = self.array(name)
        count = int(np.prod(array.shape))
        values = np.fromfile(self.path, array.dtype, count, offset=array.offset)
        if values.size != count:
            raise EdgespecError(f"{self.path}: {name} is cut off: the file changed while read")
        return values.reshape(array.shape)


def _unpacked(file: BinaryIO, layout: str) -> tuple[int, ...]:
    """Raises struct.error at the end of the file."""
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _text(file: BinaryIO) -> str:
    (length,) = _unpacked(file, "<H")
    data = file.read(length)
    if len(data) < length or not length:
        raise struct.error
    return data[:-1].decode()
