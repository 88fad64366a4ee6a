"""Arrays in one file, which is mapped when it is read: safetensors' layout, with a checksum."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.artifact.atomic_file import whole_file
from edgespec.errors import EdgespecError, printable

__all__ = ["Arrays", "file_bytes", "read_tensors", "write_tensors"]

Arrays = Mapping[str, npt.NDArray[np.generic]]

PRIVATE = 0o600  # what is kept may be people's texts
LONGEST_HEADER = 100_000_000  # bytes, as in safetensors
LENGTH_BYTES = 8  # of the header's length, which comes first
METADATA, CHECKSUM = "__metadata__", "crc32"
DTYPES = {
    "F32": "float32",
    "F16": "float16",
    "I8": "int8",
    "I32": "int32",
    "I64": "int64",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write_tensors(file: Path, metadata: Mapping[str, str], arrays: Arrays) -> None:
    """Writes a file that only its owner can read, whole or not at all.

    It does not wait for the disk: what a loss of power cuts off, the checksum finds.

    Args:
        metadata: what the arrays are of; it is in the checksum, too.

    Raises:
        OSError: it cannot be written.
    """
    ordered = _ordered(arrays)
    entries = _entries(ordered)
    checksum = zlib.crc32(_signed(metadata, entries))
    with whole_file(file, mode=PRIVATE) as aside, aside.open("r+b") as out:
        out.write(_header(metadata, entries, 0))
        for array in ordered.values():
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            checksum = zlib.crc32(content, checksum)
            out.write(content)
        out.seek(0)
        out.write(_header(metadata, entries, checksum))  # as long as the first


def file_bytes(metadata: Mapping[str, str], arrays: Arrays) -> int:
    """How large a file `write_tensors` writes."""
    header = _header(metadata, _entries(_ordered(arrays)), 0)
    return len(header) + sum(array.nbytes for array in arrays.values())


def read_tensors(file: Path) -> tuple[dict[str, str], dict[str, npt.NDArray[np.generic]]]:
    """The metadata and the arrays of a file. The arrays are read-only views of the mapped file.

    Raises:
        EdgespecError: it cannot be read, or is not as it was written.
    """
    try:
        if not file.is_file():
            what = "it is no file" if file.exists() else "there is no such file"
            raise EdgespecError(f"{file} cannot be read: {what}")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if size <= LENGTH_BYTES:
                raise ValueError("it is cut short")
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        return _parsed(memoryview(mapped))
    except OSError as error:
        raise EdgespecError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = printable(str(error).partition("\n")[0][:100])
        raise EdgespecError(
            f"{file} is no kept prompt, or a damaged one ({reason}); give another file, or delete "
            "it and keep it anew"
        ) from None


def _parsed(content: memoryview) -> tuple[dict[str, str], dict[str, npt.NDArray[np.generic]]]:
    """Raises ValueError, TypeError or KeyError where the file is not as it was written."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    begin = LENGTH_BYTES + length
    if length > min(LONGEST_HEADER, len(content) - LENGTH_BYTES):
        raise ValueError("its header is cut short")
    header = json.loads(bytes(content[LENGTH_BYTES:begin]))
    metadata = dict(header.pop(METADATA))
    if not all(isinstance(said, str) for said in metadata.values()):
        raise ValueError("what it is of is no text")
    expected = int(metadata.pop(CHECKSUM), 16)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    at = 0
    for name, entry in header.items():
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
        start, end = entry["data_offsets"]
        if start != at or end > len(content) - begin:
            raise ValueError(f"{name} is not where it was")
        flat = np.frombuffer(content[begin + start : begin + end], dtype)
        arrays[name] = flat.reshape(shape)
        at = end
    if begin + at != len(content):
        raise ValueError("it has other bytes after its arrays")
    checksum = zlib.crc32(_signed(metadata, header))
    if zlib.crc32(content[begin:], checksum) != expected:
        raise ValueError("its checksum is another")
    return metadata, arrays


def _ordered(arrays: Arrays) -> Arrays:
    """The widest numbers first, so that all are aligned."""
    return dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))


def _entries(ordered: Arrays) -> dict[str, Any]:
    """Where each array is in a file, one after another."""
    entries: dict[str, Any] = {}
    end = 0
    for name, array in ordered.items():
        start, end = end, end + array.nbytes
        entries[name] = {
            "dtype": NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    return entries


def _header(metadata: Mapping[str, str], entries: Mapping[str, Any], checksum: int) -> bytes:
    """The header with its length before it, and as many spaces after it as align the arrays."""
    whole = {METADATA: {**metadata, CHECKSUM: f"{checksum:08x}"}, **entries}
    text = json.dumps(whole).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _signed(metadata: Mapping[str, str], entries: Mapping[str, Any]) -> bytes:
    """What the checksum is of besides the arrays."""
    return json.dumps([metadata, entries], sort_keys=True).encode()
