"""WAV files (RIFF): 8 to 32 bits or floats, any number of channels, read piece by piece.

Python's own `wave` reads no floats. The format: Multimedia Programming Interface and Data
Specifications 1.0 (1991), and WAVEFORMATEXTENSIBLE.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from edgespec.audio.sound import MAX_RATE, Samples, mixed
from edgespec.errors import EdgespecError

__all__ = ["WavFile", "is_wav"]

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
MAX_CHANNELS = 64
UNKNOWN_SIZE = 2**31 - 2**16  # what programs write to a pipe is 0, or not less than this

_log = logging.getLogger("edgespec")


@dataclass(frozen=True)
class _Format:
    """How samples are stored."""

    kind: int
    channels: int
    rate: int
    bits: int

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * self.bits // 8


def is_wav(path: Path) -> bool:
    """Whether a file begins as a WAV file does."""
    with path.open("rb") as file:
        start = file.read(12)
    return start[:4] == b"RIFF" and start[8:] == b"WAVE"


class WavFile:
    """The sound of a WAV file, as `edgespec.audio.sound.Sound`.

    Raises:
        EdgespecError: the header is cut off, the file has no sound, or one in a format that is not
            known.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            try:
                self._format, self._offset, size = self._header(file)
            except struct.error:
                raise EdgespecError(f"{path}: its header is cut off; copy the file again") from None
            there = os.fstat(file.fileno()).st_size - self._offset
        if there < size < UNKNOWN_SIZE:
            _log.warning(
                "%s: says %d bytes of sound and has %d, which are read: it was cut off, or its "
                "recorder was ended",
                path,
                size,
                there,
            )
        # A program that does not know the length yet writes any: the sound goes on to the end.
        size = min(size or there, there)
        self.length = size // self._format.frame
        self.rate = self._format.rate

    def read(self, start: int, count: int) -> Samples:
        """See `Sound.read`."""
        found = np.zeros(count, np.float32)
        first, last = max(start, 0), min(start + count, self.length)
        if first < last:
            found[first - start : last - start] = mixed(self._stored(first, last))
        return found

    def _stored(self, first: int, last: int) -> Samples:
        """Samples of all channels, [last - first, channels]."""
        frame = self._format.frame
        data = np.fromfile(
            self._path, np.uint8, (last - first) * frame, offset=self._offset + first * frame
        )
        if data.size != (last - first) * frame:
            raise EdgespecError(f"{self._path}: is cut off: it changed while it was read")
        samples = _as_floats(data, self._format).reshape(-1, self._format.channels)
        if not np.isfinite(samples).all():
            raise EdgespecError(f"{self._path}: has samples that are no finite numbers")
        return samples

    def _header(self, file: BinaryIO) -> tuple[_Format, int, int]:
        """The format, and where the sound begins and how many bytes it says it has."""
        file.seek(12)
        found: _Format | None = None
        for name, size in _chunks(file):
            if name == b"fmt ":
                found = self._checked(_format(file.read(size)))
            elif name == b"data":
                if found is None:
                    break
                return found, file.tell(), size
        raise EdgespecError(f"{self._path}: is a WAV file without sound")

    def _checked(self, found: _Format) -> _Format:
        known = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
        if found.bits not in known.get(found.kind, ()):
            raise EdgespecError(
                f"{self._path}: has samples of kind {found.kind} with {found.bits} bits; convert "
                "it to WAV with 16 bits"
            )
        if not 1 <= found.channels <= MAX_CHANNELS or not 100 <= found.rate <= MAX_RATE:
            raise EdgespecError(
                f"{self._path}: has {found.channels} channels of {found.rate} samples per second; "
                f"this reads 1 to {MAX_CHANNELS} channels of 100 to {MAX_RATE}"
            )
        return found


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Names and sizes of a file's parts, each with the file at its beginning."""
    while True:
        header = file.read(8)
        if not header:
            return
        name, size = struct.unpack("<4sI", header)
        start = file.tell()
        yield name, size
        file.seek(start + size + size % 2)


def _format(data: bytes) -> _Format:
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", data[:16])
    if kind == EXTENSIBLE:
        (kind,) = struct.unpack("<H", data[24:26])
    return _Format(kind, channels, rate, bits)


def _as_floats(data: npt.NDArray[np.uint8], stored: _Format) -> Samples:
    """Samples from -1 to 1."""
    if stored.kind == FLOAT:
        return np.asarray(data.view(f"<f{stored.bits // 8}"), np.float32)
    if stored.bits == 8:  # the only width without a sign
        return (data.astype(np.float32) - np.float32(128)) / np.float32(128)
    if stored.bits == 24:
        wide = np.zeros((data.size // 3, 4), np.uint8)
        wide[:, 1:] = data.reshape(-1, 3)  # as the upper bytes of 32 bits
        return wide.reshape(-1).view("<i4").astype(np.float32) / np.float32(2**31)
    scale = np.float32(2 ** (stored.bits - 1))
    return np.asarray(data.view(f"<i{stored.bits // 8}").astype(np.float32) / scale, np.float32)
