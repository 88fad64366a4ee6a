"""What a speech model reads and which of its tokens have a role: `speech.json` of an exported pair.

A speech model's decoder begins with tokens for the language and the task; timestamps are tokens,
too (Radford et al. 2022, section 2.3). docs/reference/folder-format.md describes the file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.typed_json import read_json, write_json
from edgespec.errors import EdgespecError

__all__ = ["SPEECH", "SpeechFormat", "read_speech_format", "write_speech_format"]

SPEECH = "speech.json"  # in the folder of its model: "target" or "draft"


@dataclass(frozen=True)
class SpeechFormat:
    """The spectrogram that a speech model reads, and its tokens that are no text.

    Attributes:
        mel_bins: bands of the spectrogram.
        frames: frames of 10 ms in a window: 3000.
        end: ends a text. Text tokens come before it, all others after it.
        start: first token of the decoder.
        languages: language code to token; empty for a model of English alone.
        transcribe, translate: the tasks; None for a model of English alone.
        previous: stands before what was said before; no text begins with it.
        no_speech: its probability after `start` is that of silence.
        no_timestamps: asks for a text without timestamps.
        first_timestamp: 0.00 s; each later token is 20 ms later, up to the end of the window.
        suppressed: tokens that never come.
        suppressed_first: tokens that do not come first.
    """

    mel_bins: int
    frames: int
    end: int
    start: int
    languages: dict[str, int]
    transcribe: int | None
    translate: int | None
    previous: int | None
    no_speech: int | None
    no_timestamps: int
    first_timestamp: int
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]

    @property
    def is_multilingual(self) -> bool:
        return bool(self.languages)


def write_speech_format(speech: SpeechFormat, folder: Path) -> None:
    """Writes the file into the folder of its model."""
    write_json(dataclasses.asdict(speech), folder / SPEECH)


def read_speech_format(folder: Path) -> SpeechFormat:
    """Reads the file in the folder of its model.

    Raises:
        EdgespecError: it is missing or damaged.
    """
    try:
        return read_json(SpeechFormat, folder / SPEECH)
    except (OSError, ValueError) as error:
        raise EdgespecError(
            f"{folder / SPEECH} is damaged ({error}); export the pair again"
        ) from None
