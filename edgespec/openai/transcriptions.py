"""OpenAI's transcriptions: the fields of a form as options, transcripts as answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgespec.errors import UsageError, shortened
from edgespec.openai.answer_events import Event
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.transcription_options import TranscriptionOptions

__all__ = ["FIELDS", "FORMATS", "TranscriptionRequest", "transcription_request"]

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
PLAIN = {"text": "text/plain", "srt": "application/x-subrip", "vtt": "text/vtt"}
FIELDS = frozenset(
    {
        *("file", "model", "language", "prompt", "response_format", "temperature", "stream"),
        *("timestamp_granularities[]", "timestamp_granularities", "chunking_strategy", "user"),
        "seed",
    }
)
GRANULARITIES = ("timestamp_granularities[]", "timestamp_granularities")


@dataclass(frozen=True)
class TranscriptionRequest:
    """A request for a transcript.

    Attributes:
        options: of `Pair.stream_transcript`.
        form: one of `FORMATS`.
        streams: segments are sent as they are made.
        has_segments: a verbose answer has them; it may have words instead.
    """

    options: TranscriptionOptions
    form: str
    streams: bool
    has_segments: bool = True

    @property
    def media_type(self) -> str | None:
        """Of an answer that is a text; None where it is an object."""
        return PLAIN.get(self.form)

    def text(self, transcript: Transcript) -> str:
        """An answer that is a text."""
        if self.form == "srt":
            return transcript.srt()
        return transcript.vtt() if self.form == "vtt" else f"{transcript.text}\n"

    def whole(self, transcript: Transcript) -> JsonObject:
        """An answer that is an object."""
        usage: JsonObject = {"type": "duration", "seconds": round(transcript.duration, 3)}
        if self.form != "verbose_json":
            return {"text": transcript.text, "usage": usage}
        answer: dict[str, JsonValue] = {
            "task": self.options.get("task", "transcribe"),
            "language": transcript.language or "",
            "duration": transcript.duration,
            "text": transcript.text,
            "usage": usage,
        }
        if self.has_segments:
            numbered = enumerate(transcript.segments)
            answer["segments"] = [_segment(number, part) for number, part in numbered]
        if self.options.get("word_times"):
            answer["words"] = [
                {"word": word.text, "start": word.start, "end": word.end}
                for word in transcript.words
            ]
        return answer

    def piece(self, number: int, segment: Segment) -> Event:
        """The event for a segment."""
        return Event(
            {
                "type": "transcript.text.delta",
                "delta": f" {segment.text}" if number else segment.text,
                "segment_id": str(number),
            }
        )

    def last(self, transcript: Transcript) -> Event:
        """The event after all segments."""
        whole = self.whole(transcript)
        return Event(
            {"type": "transcript.text.done", "text": transcript.text, "usage": whole["usage"]}
        )


def transcription_request(
    fields: Mapping[str, Sequence[str]], *, translates: bool
) -> TranscriptionRequest:
    """The request of a form.

    Args:
        fields: each with its values, but the sound.
        translates: to English.

    Raises:
        UsageError: a value is not allowed, or it asks for what is not there.
    """
    given = {name: values[-1] for name, values in fields.items() if values and values[-1] != ""}
    form = given.get("response_format", "json")
    if form not in FORMATS:
        raise UsageError(f"response_format is {shortened(form)}; give one of: {', '.join(FORMATS)}")
    times = _granularities(fields)
    if "word" in times and form != "verbose_json":
        raise UsageError(
            f"timestamp_granularities has 'word' and response_format is {shortened(form)}; words "
            "are in verbose_json only"
        )
    options: TranscriptionOptions = {"task": "translate" if translates else "transcribe"}
    if "word" in times:
        options["word_times"] = True
    if "language" in given:
        options["language"] = given["language"]
    if "prompt" in given:
        options["prompt"] = given["prompt"]
    # 0 lets improbable texts be decoded again at higher temperatures, as at OpenAI.
    if (temperature := _number(given.get("temperature", "0"))) > 0:
        options["temperature"] = temperature
    if (seed := given.get("seed")) is not None:
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 19):
            raise UsageError(f"seed is {shortened(seed)}; give a whole number from 0")
        options["seed"] = int(seed)
    streams = given.get("stream", "false").lower()
    if streams not in ("true", "false"):
        raise UsageError(f"stream is {shortened(streams)}; give true or false")
    return TranscriptionRequest(options, form, streams == "true", times != {"word"})


def _granularities(fields: Mapping[str, Sequence[str]]) -> set[str]:
    """What has times in an answer, as far as it is said."""
    return {value for name in GRANULARITIES for value in fields.get(name, ()) if value}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"temperature is {shortened(text)}; give a number from 0 to 1")
    return value


def _segment(number: int, part: Segment) -> JsonObject:
    return {
        "id": number,
        "seek": 0,
        "start": part.start,
        "end": part.end,
        "text": part.text,
        "tokens": list(part.token_ids),
        "temperature": part.temperature,
        "avg_logprob": part.logprob,
        "compression_ratio": part.compression,
        "no_speech_prob": part.no_speech,
    }
