"""A transcript: segments with times, as text, as SubRip subtitles (SRT) and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from edgespec.core.stats import Stats

__all__ = ["Segment", "Transcript", "srt_entry"]


@dataclass(frozen=True)
class Segment:
    """A part of a transcript.

    Attributes:
        start, end: seconds from the beginning of the sound.
        text: without timestamps and without white space around it.
        token_ids: with timestamps.
    """

    start: float
    end: float
    text: str
    token_ids: tuple[int, ...]


@dataclass
class Transcript:
    """What was said.

    Attributes:
        segments: in order.
        language: code of the spoken language: as given, or found in the first window.
        seconds: of the sound that was read so far.
        seed: draws the same text again; None of a greedy text.
        stats: counts and times of decoding, of all windows.
    """

    segments: list[Segment] = field(default_factory=list)
    language: str | None = None
    seconds: float = 0.0
    seed: int | None = None
    stats: Stats = field(default_factory=Stats)

    @property
    def text(self) -> str:
        """All segments in one line."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def token_ids(self) -> list[int]:
        """Of all segments, with timestamps."""
        return [token for segment in self.segments for token in segment.token_ids]

    def srt(self) -> str:
        """The segments as SubRip subtitles."""
        return "\n".join(
            srt_entry(number, segment) for number, segment in enumerate(self.segments, start=1)
        )

    def to_dict(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {
            "text": self.text,
            "language": self.language,
            "seconds": self.seconds,
            "seed": self.seed,
            "segments": [asdict(segment) for segment in self.segments],
            "stats": self.stats.to_dict(),
        }


def srt_entry(number: int, segment: Segment) -> str:
    """One subtitle with its number, counted from 1; a line end follows."""
    return f"{number}\n{_srt_time(segment.start)} --> {_srt_time(segment.end)}\n{segment.text}\n"


def _srt_time(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"
