"""From the tokens of a window to segments with times, and to where the next window begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.artifact.speech_format import SpeechFormat

__all__ = ["FRAMES_PER_STEP", "TokenSegment", "WindowSegments", "segments_of"]

FRAMES_PER_STEP = 2  # of a timestamp: 20 ms


@dataclass(frozen=True)
class TokenSegment:
    """A part of a window's text.

    Attributes:
        start, end: frames in the window.
        tokens: with timestamps.
    """

    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class WindowSegments:
    """The segments of a window.

    Attributes:
        advance: frames from its beginning to the next window's.
    """

    segments: list[TokenSegment]
    advance: int


def segments_of(tokens: Sequence[int], speech: SpeechFormat, frames: int) -> WindowSegments:
    """Splits a window's text at its timestamps.

    A segment that the window cuts off has a start and no end: the next window begins where it
    does. If the text ends with a single timestamp, nothing is said after it in this window.

    Args:
        tokens: without the token that ends a text.
        frames: of the window that are sound.
    """
    first = speech.first_timestamp

    def frame(token: int) -> int:
        return min((token - first) * FRAMES_PER_STEP, frames)

    is_time = [token >= first for token in tokens]
    borders = [at for at in range(1, len(tokens)) if is_time[at - 1] and is_time[at]]
    closed = len(tokens) > 1 and is_time[-1] and not is_time[-2]
    if not borders:
        times = [frame(token) for token in tokens if token >= first]
        end = times[-1] if times and times[-1] > 0 else frames
        whole = TokenSegment(0, end, tuple(tokens))
        return WindowSegments([whole] if tokens else [], frames)
    ends = [*borders, len(tokens)] if closed else borders
    starts = [0, *ends[:-1]]
    segments = [
        TokenSegment(frame(tokens[start]), frame(tokens[end - 1]), tuple(tokens[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    if closed:
        return WindowSegments(segments, frames)
    # At least a step, so that the end is reached whatever a model says.
    return WindowSegments(segments, max(frame(tokens[ends[-1] - 1]), FRAMES_PER_STEP))
