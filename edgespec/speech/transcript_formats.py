"""Segments with times as subtitles (SubRip, WebVTT) and as a table.

The same text as of Whisper's own program, whose formats other tools read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

__all__ = ["TimedText", "cues", "srt", "srt_entry", "tsv", "tsv_line", "vtt", "vtt_entry"]


class TimedText(Protocol):
    """Text and when it is said, in seconds."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def text(self) -> str: ...


class TimedWords(TimedText, Protocol):
    """A text that may know when each of its words is said."""

    @property
    def words(self) -> Sequence[TimedText]: ...


def cues(segments: Iterable[TimedWords]) -> Iterator[TimedText]:
    """What is shown at a time: each word that has times, else each segment."""
    for segment in segments:
        yield from segment.words or (segment,)


def srt(segments: Iterable[TimedText]) -> str:
    """SubRip subtitles, with an empty line between two."""
    return "\n".join(srt_entry(number, segment) for number, segment in enumerate(segments, start=1))


def srt_entry(number: int, segment: TimedText) -> str:
    """One subtitle with its number, counted from 1; a line end follows."""
    times = f"{_clock(segment.start, ',', True)} --> {_clock(segment.end, ',', True)}"
    return f"{number}\n{times}\n{_without_arrow(segment.text)}\n"


def vtt(segments: Iterable[TimedText]) -> str:
    """WebVTT subtitles."""
    return "".join(["WEBVTT\n\n", *(f"{vtt_entry(segment)}\n" for segment in segments)])


def vtt_entry(segment: TimedText) -> str:
    """One subtitle; a line end follows."""
    times = f"{_clock(segment.start, '.', False)} --> {_clock(segment.end, '.', False)}"
    text = segment.text.replace("&", "&amp;").replace("<", "&lt;")  # else they begin tags
    return f"{times}\n{_without_arrow(text)}\n"


def tsv(segments: Iterable[TimedText]) -> str:
    """A table with a head: milliseconds of start and end, text."""
    return "".join(["start\tend\ttext\n", *map(tsv_line, segments)])


def tsv_line(segment: TimedText) -> str:
    text = segment.text.replace("\t", " ")
    return f"{round(segment.start * 1000)}\t{round(segment.end * 1000)}\t{text}\n"


def _without_arrow(text: str) -> str:
    """A text that cannot be taken for a line of times."""
    return text.replace("-->", "->")


def _clock(seconds: float, point: str, hours_always: bool) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours:02}:" if hours or hours_always else ""
    return f"{shown}{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
