"""Sound that ffmpeg decodes: m4a, webm, the sound of a video."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

import numpy as np

from edgespec.audio.sound import RATE, Samples
from edgespec.errors import EdgespecError, one_line

__all__ = ["ConvertedSound", "has_ffmpeg"]

BYTES = 2  # of a sample
FULL = np.float32(2**15)
# ffmpeg's names. Playlists are not among them: they name other files, of which nobody was told.
CONTAINERS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,dts,eac3,flac,flv,loas,matroska,mov,mp3,mpeg,mpegts,ogg,"
    "rm,tta,voc,w64,wav,wv"
)


def has_ffmpeg() -> bool:
    return shutil.which("ffmpeg") is not None


class ConvertedSound:
    """The first sound of a file, mono at `RATE`, in a temporary file that goes with this object.

    Raises:
        EdgespecError: ffmpeg finds no sound in it.
        OSError: ffmpeg cannot be started, or the temporary file not be written.
    """

    rate = RATE

    def __init__(self, path: Path) -> None:
        self._file = tempfile.TemporaryFile(prefix="edgespec-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        command = ["ffmpeg", "-nostdin", "-v", "error", "-protocol_whitelist", "file"]
        command += ["-format_whitelist", CONTAINERS, "-i", str(path.resolve())]
        command += ["-map", "0:a:0", "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.PIPE,
            check=False,
        )
        self.length = self._file.seek(0, 2) // BYTES
        if done.returncode or not self.length:
            self._file.close()
            said = done.stderr.decode(errors="replace").replace(str(path.resolve()), path.name)
            why = one_line(ValueError(said)) if said.strip() else "it has no sound"
            raise EdgespecError(f"{path}: is no sound that ffmpeg can read ({why})")

    def read(self, start: int, count: int) -> Samples:
        """See `edgespec.audio.sound.Sound.read`."""
        found = np.zeros(count, np.float32)
        first, last = max(start, 0), min(start + count, self.length)
        if first < last:
            self._file.seek(first * BYTES)
            samples = np.frombuffer(self._file.read((last - first) * BYTES), "<i2")
            found[first - start : last - start] = samples / FULL
        return found
