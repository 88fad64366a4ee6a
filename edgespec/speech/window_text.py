"""The text of one window, and whether it is to be believed, decoded again, or left out.

The rules of Whisper's own program (Radford et al. 2022, section 4.5, and openai/whisper,
`transcribe.py`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from edgespec.speech.speech_options import CheckedOptions

__all__ = ["WindowText", "compression", "is_silent", "needs_another"]


@dataclass(frozen=True)
class WindowText:
    """A window's text.

    Attributes:
        tokens: with timestamps, without the token that ends them.
        temperature: at which it was decoded.
        logprob: mean log-probability of a token, the one that ends the text included, at
            temperature 1.
        compression: how many times smaller zlib makes the text.
        silence: probability that nothing is said in the window.
    """

    tokens: list[int]
    temperature: float
    logprob: float
    compression: float
    silence: float


def compression(text: str) -> float:
    """Bytes of a text for each byte that zlib makes of it: repetitions raise it."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))


def needs_another(text: WindowText, options: CheckedOptions) -> bool:
    """Whether a text repeats itself or is improbable, in a window that is not silent."""
    improbable = options.min_logprob is not None and text.logprob < options.min_logprob
    silent = options.no_speech is not None and text.silence > options.no_speech
    if silent and improbable:
        return False
    repeats = options.max_compression is not None and text.compression > options.max_compression
    return repeats or improbable


def is_silent(text: WindowText, options: CheckedOptions) -> bool:
    """Whether a window says nothing, whatever its text."""
    probable = options.min_logprob is not None and text.logprob > options.min_logprob
    return options.no_speech is not None and text.silence > options.no_speech and not probable
