"""The options of a transcript: their names, types and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from edgespec.errors import check_names
from edgespec.speech.speech_options import SpeechOptions, checked_options

if TYPE_CHECKING:
    from edgespec.speech.voices import VoiceOptions

__all__ = ["TRANSCRIPTION_DEFAULTS", "TranscriptionOptions", "parted"]


class DecodingOptions(TypedDict, total=False):
    """How a transcript is decoded; see `Pair.stream_transcript`."""

    seed: int
    gamma: int | str | None
    draft: bool | str
    voices: bool | VoiceOptions


class TranscriptionOptions(SpeechOptions, DecodingOptions, total=False):
    """The keyword arguments of `Pair.transcribe`."""


DECODING: Mapping[str, Any] = {"seed": 0, "gamma": None, "draft": True, "voices": False}
# What an option is that is not given.
TRANSCRIPTION_DEFAULTS: Mapping[str, Any] = {
    **{
        name: parameter.default
        for name, parameter in inspect.signature(checked_options).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    },
    **DECODING,
}


def parted(options: TranscriptionOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of `checked_options`, and those of decoding.

    Raises:
        TypeError: there is no option of a given name.
    """
    check_names("a transcript", options, TRANSCRIPTION_DEFAULTS)
    given: dict[str, Any] = {**options}
    decoding = {name: given.pop(name) for name in DECODING if name in given}
    return given, decoding
