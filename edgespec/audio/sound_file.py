"""Sound files: WAV by numpy, others by the package soundfile, the rest by ffmpeg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgespec.audio.converted_sound import ConvertedSound, has_ffmpeg
from edgespec.audio.sound import Samples, Sound, check_rate, mixed
from edgespec.audio.wav_file import WavFile, is_wav
from edgespec.errors import EdgespecError, UsageError, in_checkout

__all__ = ["open_sound"]

AUDIO = in_checkout(".[audio]")


def open_sound(path: Path) -> Sound:
    """The sound of a file.

    Raises:
        UsageError: there is no such file, or it is a folder.
        EdgespecError: it holds no sound that can be read, or needs the package soundfile or ffmpeg.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UsageError(f"{path}: {what}; give a sound file, such as a WAV file")
    if path.stat().st_size == 0:
        raise EdgespecError(f"{path}: is empty")
    if is_wav(path):
        return WavFile(path)
    found = _by_library(path)
    if not isinstance(found, str):
        return found
    if has_ffmpeg():
        return ConvertedSound(path)
    raise EdgespecError(
        f"{path}: {found}; ffmpeg, which reads more, is not installed here: install it, or give a "
        "WAV file"
    )


def _by_library(path: Path) -> Sound | str:
    """The sound as soundfile reads it; else why it does not."""
    try:
        import soundfile
    except ModuleNotFoundError:
        return f"is no WAV file; FLAC, MP3 and Ogg need the package soundfile ({AUDIO})"
    try:
        return _LibrarySound(path, soundfile.SoundFile(path))
    except soundfile.LibsndfileError as error:
        return f"is no sound that soundfile can read ({error.error_string.rstrip('.')})"


class _LibrarySound:
    """The sound of a file that libsndfile decodes."""

    def __init__(self, path: Path, file: Any) -> None:
        check_rate(file.samplerate)
        self._path = path
        self._file = file
        self.rate: int = file.samplerate
        self.length: int = file.frames

    def read(self, start: int, count: int) -> Samples:
        """See `Sound.read`."""
        import numpy as np
        import soundfile

        found = np.zeros(count, np.float32)
        first, last = max(start, 0), min(start + count, self.length)
        if first >= last:
            return found
        try:
            self._file.seek(first)
            samples = self._file.read(last - first, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise EdgespecError(f"{self._path}: is damaged ({error.error_string})") from None
        if not np.isfinite(samples).all():
            raise EdgespecError(f"{self._path}: has samples that are no finite numbers")
        # A damaged file may end early: the rest is silence.
        found[first - start : first - start + len(samples)] = mixed(samples)
        return found
