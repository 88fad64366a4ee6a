"""`edgespec transcribe`: the text of a sound file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from edgespec.cli.checks import check_seed
from edgespec.cli.console import console_text
from edgespec.cli.options import DRAFTER, PAIR, TEMPERATURE, drafting
from edgespec.cli.parameters.loading_options import LOADING, Loading

if TYPE_CHECKING:
    from edgespec.pair.speech_engine import TranscriptionOptions, TranscriptStream
    from edgespec.speech.transcript import Transcript

__all__ = ["transcribe"]

FORMATS = ("text", "srt", "json")


@click.command(short_help="Make text of sound; exactly the target's own.")
@PAIR
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Lines, SubRip subtitles or one JSON object.",
)
@click.option("--language", help="Code of the spoken language; default: found in the first window.")
@click.option("--translate", is_flag=True, help="Translate to English.")
@click.option("--no-timestamps", is_flag=True, help="One segment for each 30 seconds.")
@click.option(
    "--use-previous", is_flag=True, help="Each window continues the text of those before it."
)
@click.option(
    "--no-speech",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="Probability of silence above which an improbable text is left out; 1 keeps all.",
)
@TEMPERATURE
@click.option("--seed", type=int, callback=check_seed, help="Draws the same text again.")
@DRAFTER
@click.option("--stats", is_flag=True, help="Show speed and acceptance.")
@LOADING
def transcribe(
    file: Path,
    output_format: str,
    translate: bool,
    no_timestamps: bool,
    draft: str | None,
    no_draft: bool,
    stats: bool,
    loading: Loading,
    **options: object,
) -> None:
    """Make text of the sound in FILE: WAV, or with the extra "audio" also FLAC, MP3 and Ogg. It may
    be standard input (-) or a pipe, which is read to its end first.

    PAIR is an exported folder, or what `edgespec export` takes as TARGET: that is exported on first
    use. A line is written as soon as its 30 seconds of sound are decoded. The text is exactly the
    target's own: greedy it is the same text as with --no-draft.
    """
    from edgespec.artifact.readable_input import readable_twice
    from edgespec.audio.sound_file import open_sound

    options |= {
        "draft": drafting(draft, no_draft),
        "task": "translate" if translate else "transcribe",
        "timestamps": not no_timestamps,
    }
    with readable_twice(file) as readable:
        sound = open_sound(readable)
        pair = loading.pair(plainly=no_draft)
        with pair.stream_transcript(sound, **cast("TranscriptionOptions", options)) as stream:
            _show(stream, output_format)
    if stats:
        _show_stats(stream.result)


def _show(stream: TranscriptStream, output_format: str) -> None:
    """Reads a stream to its end and writes it to stdout."""
    from edgespec.speech.transcript import srt_entry

    for number, segment in enumerate(stream, start=1):
        if output_format == "text":
            click.echo(console_text(segment.text))
        elif output_format == "srt":
            click.echo(console_text(srt_entry(number, segment)))
    if output_format == "json":
        click.echo(json.dumps(stream.result.to_dict()))


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
