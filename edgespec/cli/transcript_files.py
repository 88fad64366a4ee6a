"""Where transcripts go, and in which format: standard output or files, as they grow."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.artifact.atomic_file import whole_file
from edgespec.cli.console import console_text
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.speech_engine import TranscriptStream

__all__ = ["FORMATS", "output_files", "write_transcript"]

FORMATS = ("txt", "srt", "vtt", "tsv", "json")


def output_files(out: str | None, sounds: Sequence[Path], output_format: str) -> list[Path | None]:
    """The file of each sound's transcript; None for standard output.

    `out` is a folder if there are several sounds, if it ends as a folder does or is one; it is
    made where it is missing.

    Raises:
        UsageError: several sounds have no folder, or two of them one file; or a transcript would
            replace a sound.
        OSError: the folder cannot be made.
    """
    if out is None:
        if len(sounds) > 1:
            raise UsageError(
                f"{len(sounds)} sound files; give -o DIR, a folder for the transcripts"
            )
        return [None]
    folder = len(sounds) > 1 or out.endswith(("/", os.sep)) or Path(out).is_dir()
    names = [f"{'standard-input' if str(s) == '-' else s.stem}.{output_format}" for s in sounds]
    files = [Path(out) / name for name in names] if folder else [Path(out)]
    for file, sound in zip(files, sounds, strict=True):
        if file.exists() and sound.exists() and file.samefile(sound):
            raise UsageError(f"{file} is the sound itself; give another name with -o")
        if files.count(file) > 1:
            raise UsageError(
                f"two of the sounds would be written to {file}; transcribe them one by one"
            )
    if folder:
        Path(out).mkdir(parents=True, exist_ok=True)
    return list(files)


def write_transcript(
    stream: TranscriptStream, output_format: str, file: Path | None, label: str
) -> None:
    """Reads a stream to its end and writes it: to a file, which appears when it is whole, or to
    standard output, as it comes.

    Args:
        label: of the bar of progress.
    """
    if file is None:
        for piece in _with_progress(stream, output_format, label, shown=not sys.stdout.isatty()):
            click.echo(console_text(piece), nl=False)
        return
    with whole_file(file) as aside, aside.open("w", encoding="utf-8", newline="\n") as written:
        for piece in _with_progress(stream, output_format, label, shown=True):
            written.write(piece)


def _with_progress(
    stream: TranscriptStream, output_format: str, label: str, *, shown: bool
) -> Iterator[str]:
    """What is to be written; on a terminal with a bar that says how long it will take."""
    if not (shown and sys.stderr.isatty()):
        yield from _pieces(stream, output_format)
        return
    result = stream.result
    with click.progressbar(
        length=max(1, int(result.duration)), label=label, file=sys.stderr
    ) as bar:
        for piece in _pieces(stream, output_format):
            yield piece
            bar.update(int(result.seconds) - bar.pos)


def _pieces(stream: TranscriptStream, output_format: str) -> Iterator[str]:
    from edgespec.speech.transcript_formats import cues, srt_entry, tsv, tsv_line, vtt, vtt_entry

    yield {"vtt": vtt(()), "tsv": tsv(())}.get(output_format, "")
    if output_format in ("txt", "json"):
        for segment in stream:  # JSON comes at the end, and the bar goes on
            yield f"{segment.text}\n" if output_format == "txt" else ""
    else:
        for number, cue in enumerate(cues(stream), start=1):
            if output_format == "srt":
                yield f"{srt_entry(number, cue)}\n"
            else:
                yield f"{vtt_entry(cue)}\n" if output_format == "vtt" else tsv_line(cue)
    if output_format == "json":
        yield f"{json.dumps(stream.result.to_dict())}\n"
