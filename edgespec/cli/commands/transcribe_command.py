"""`edgespec transcribe`: the text of sound files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from edgespec.cli.checks import check_seed
from edgespec.cli.options import DRAFTER, PAIR, TEMPERATURE, drafting, together
from edgespec.cli.parameters.loading_options import LOADING, Loading
from edgespec.cli.progress_lines import say
from edgespec.cli.transcript_files import FORMATS, output_files, write_transcript
from edgespec.errors import EdgespecError, UsageError

if TYPE_CHECKING:
    from edgespec.pair.pair import Pair
    from edgespec.speech.transcript import Transcript
    from edgespec.speech.transcription_options import TranscriptionOptions

__all__ = ["transcribe"]

OUTPUT = together(
    click.option(
        "--format",
        "output_format",
        type=click.Choice([*FORMATS, "text"]),
        default="txt",
        show_default=True,
        help="Lines (text is another name), subtitles (SubRip, WebVTT), a table, one JSON object.",
    ),
    click.option(
        "-o",
        "--output",
        metavar="FILE|DIR",
        help="A file for the transcript, or a folder: each has its sound's name and the format's "
        "extension. Default: standard output.",
    ),
)
VOICES = together(
    click.option(
        "--vad",
        is_flag=True,
        help="Transcribe only the parts in which somebody speaks; needs the package silero-vad.",
    ),
    click.option(
        "--vad-threshold",
        type=click.FloatRange(0, 1),
        default=0.5,
        show_default=True,
        help="Probability from which on somebody speaks.",
    ),
    click.option(
        "--vad-min-silence",
        type=click.FloatRange(0, 60),
        default=2.0,
        show_default=True,
        help="Seconds of silence that end such a part.",
    ),
)
BELIEVED = together(
    click.option(
        "--no-fallback",
        is_flag=True,
        help="Keep every text; default: decode one that is improbable or repeats itself again, at "
        "temperatures that rise to 1.",
    ),
    click.option(
        "--no-speech",
        type=click.FloatRange(0, 1),
        default=0.6,
        show_default=True,
        help="Probability of silence above which an improbable text is left out; 1 keeps all.",
    ),
    click.option(
        "--min-logprob",
        type=click.FloatRange(max=0),
        default=-1.0,
        show_default=True,
        help="Mean log-probability of a token below which a text is improbable.",
    ),
    click.option(
        "--max-compression",
        type=click.FloatRange(min=0),
        default=2.4,
        show_default=True,
        help="A text repeats itself if zlib makes it more than so many times smaller.",
    ),
)


@click.command(short_help="Make text of sound; exactly the target's own.")
@PAIR
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@OUTPUT
@click.option(
    "--language",
    help="Code of the spoken language; default: found in the first window with speech.",
)
@click.option("--translate", is_flag=True, help="Translate to English.")
@click.option(
    "--word-times",
    is_flag=True,
    help="When each word is spoken: in json, and one line or subtitle a word in srt, vtt and tsv.",
)
@click.option("--no-timestamps", is_flag=True, help="One segment for each 30 seconds.")
@click.option(
    "--use-previous", is_flag=True, help="Each window continues the text of those before it."
)
@click.option("--prompt", help="Text as if it had been said before: names, spelling.")
@VOICES
@BELIEVED
@TEMPERATURE
@click.option("--seed", type=int, callback=check_seed, help="Of what is drawn; default: 0.")
@DRAFTER
@click.option("--stats", is_flag=True, help="Show speed and acceptance.")
@LOADING
def transcribe(
    files: tuple[Path, ...],
    output_format: str,
    output: str | None,
    translate: bool,
    no_timestamps: bool,
    no_fallback: bool,
    temperature: float,
    seed: int | None,
    vad: bool,
    vad_threshold: float,
    vad_min_silence: float,
    draft: str | None,
    no_draft: bool,
    stats: bool,
    loading: Loading,
    **options: object,
) -> None:
    """Make text of the sound in each FILE: WAV; with the extra "audio" FLAC, MP3 and Ogg; with
    ffmpeg on this machine whatever that reads (m4a, webm, video). It may be standard input (-) or a
    pipe, which is read to its end first. Several files go to a folder (-o).

    PAIR is an exported folder, or what `edgespec export` takes as TARGET: that is exported on first
    use. A line is written as soon as its 30 seconds of sound are decoded. The text is exactly the
    target's own: it is the same text as with --no-draft.

    \b
    Examples:
      edgespec transcribe build/whisper talk.wav
      edgespec transcribe build/whisper *.mp3 --format srt -o subtitles
    """
    from edgespec.speech.speech_options import TEMPERATURES
    from edgespec.speech.voices import VoiceOptions

    higher = () if no_fallback else (value for value in TEMPERATURES if value > temperature)
    options |= {
        "draft": drafting(draft, no_draft),
        "task": "translate" if translate else "transcribe",
        "timestamps": not no_timestamps,
        "temperature": (temperature, *higher),
        "seed": seed or 0,
        "voices": vad and VoiceOptions(vad_threshold, vad_min_silence),
    }
    output_format = "txt" if output_format == "text" else output_format
    transcripts = output_files(output, files, output_format)
    opened = cache(lambda: loading.pair(plainly=no_draft))
    failed = 0
    for file, transcript in zip(files, transcripts, strict=True):
        try:
            result = _transcribed(opened, file, transcript, output_format, options)
        except _SoundError as error:
            if len(files) == 1:
                raise error.cause from None
            say(f"edgespec: {error.cause}")
            failed += 1
            continue
        if stats:
            _show_stats(result)
    if failed:
        raise EdgespecError(f"{failed} of {len(files)} files have no transcript")


class _SoundError(Exception):
    """A file has no sound that can be read; others may have."""

    def __init__(self, cause: EdgespecError) -> None:
        self.cause = cause


def _transcribed(
    opened: Callable[[], Pair],
    file: Path,
    transcript: Path | None,
    output_format: str,
    options: dict[str, object],
) -> Transcript:
    """Writes the transcript of one file.

    Args:
        opened: gives the pair; the first file that is sound loads it.

    Raises:
        _SoundError: it cannot be read.
    """
    from edgespec.artifact.readable_input import readable_twice
    from edgespec.audio.sound_file import open_sound

    with readable_twice(file) as readable:
        try:
            sound = open_sound(readable)
        except EdgespecError as error:
            raise _SoundError(error) from None
        with opened().stream_transcript(sound, **cast("TranscriptionOptions", options)) as stream:
            try:
                write_transcript(stream, output_format, transcript, file.name)
            except UsageError:
                raise
            except EdgespecError as error:
                raise _SoundError(error) from None
        return stream.result


def _show_stats(result: Transcript) -> None:
    """Writes speed and acceptance to stderr, so that stdout is the text alone."""
    stats = result.stats
    times = result.seconds / stats.seconds if stats.seconds else 0.0
    lines = [
        f"{result.seconds:.1f} s of sound ({result.language}) in {stats.seconds:.2f} s: "
        f"{times:.1f} times as fast",
        f"{stats.tokens} tokens in {stats.target_calls} target calls: "
        f"{stats.tokens_per_target_call:.2f} tokens a call",
    ]
    if stats.drafted:
        lines.append(
            f"accepted {stats.accepted} of {stats.evaluated} drafted tokens evaluated "
            f"({stats.acceptance_rate:.0%})"
        )
    for line in lines:
        click.secho(line, err=True, dim=True)
