"""A speech format whose vocabulary has a few words and the timestamps of 2 s."""

from __future__ import annotations

from edgespec.artifact.speech_format import SpeechFormat

__all__ = ["FIRST", "LAST", "SIZE", "SPEECH"]

FIRST, LAST = 20, 20 + 100  # timestamps: 0 to 2 s
SPEECH = SpeechFormat(
    mel_bins=12,
    frames=200,
    end=12,
    start=13,
    languages={"en": 14},
    transcribe=15,
    translate=16,
    previous=17,
    no_speech=18,
    no_timestamps=19,
    first_timestamp=FIRST,
    suppressed=(3, 13),
    suppressed_first=(5, 12),
)
SIZE = LAST + 1
