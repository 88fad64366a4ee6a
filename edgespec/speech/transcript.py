"""A transcript: segments with times."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from edgespec.core.stats import Stats
from edgespec.speech.transcript_formats import cues, srt, tsv, vtt
from edgespec.speech.words import Word

__all__ = ["Segment", "Transcript"]


@dataclass(frozen=True)
class Segment:
    """A part of a transcript.

    Attributes:
        start, end: seconds from the beginning of the sound.
        text: without timestamps and without white space around it.
        token_ids: with timestamps.
        temperature: at which its window was decoded.
        logprob: mean log-probability of a token of its window.
        compression: how many times smaller zlib makes its window's text; repetitions raise it.
        no_speech: probability that nothing is said in its window.
        words: with times, if they were asked for.
    """

    start: float
    end: float
    text: str
    token_ids: tuple[int, ...]
    temperature: float = 0.0
    logprob: float = 0.0
    compression: float = 0.0
    no_speech: float = 0.0
    words: tuple[Word, ...] = ()


@dataclass
class Transcript:
    """What was said.

    Attributes:
        segments: in order.
        language: code of the spoken language: as given, or found in the first window with speech;
            None if there was none.
        language_probability: of the language that was found; None if it was given.
        seconds: of the sound that was read so far.
        duration: seconds of the whole sound.
        seed: of what is drawn at temperatures above 0.
        stats: counts and times of decoding, of all windows.
    """

    segments: list[Segment] = field(default_factory=list)
    language: str | None = None
    language_probability: float | None = None
    seconds: float = 0.0
    duration: float = 0.0
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

    @property
    def words(self) -> list[Word]:
        """Of all segments; empty unless they were asked for."""
        return [word for segment in self.segments for word in segment.words]

    def srt(self) -> str:
        """The segments as SubRip subtitles; the words, if they have times."""
        return srt(cues(self.segments))

    def vtt(self) -> str:
        """The segments as WebVTT subtitles; the words, if they have times."""
        return vtt(cues(self.segments))

    def tsv(self) -> str:
        """The segments, or the words if they have times, as a table: milliseconds of start and end,
        text."""
        return tsv(cues(self.segments))

    def to_dict(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {
            "text": self.text,
            "language": self.language,
            "language_probability": self.language_probability,
            "seconds": self.seconds,
            "duration": self.duration,
            "seed": self.seed,
            "segments": [asdict(segment) for segment in self.segments],
            "stats": self.stats.to_dict(),
        }
