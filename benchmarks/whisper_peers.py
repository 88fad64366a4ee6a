"""Whole sound files: seconds of other programs over seconds of edgespec, and word error rates.

    python benchmarks/whisper_peers.py PAIR --ctranslate2 DIR [--ggml FILE] --sound FILE … \
        --json FILE

Each sound file has its text beside it, FILE.txt. All programs get the same samples at 16 kHz and
run in this process, in turns, `--rounds` times; greedy, with timestamps, without fallbacks and
without earlier text. The peers need an environment of their own, which has edgespec with its
kernels, too: faster-whisper, and pywhispercpp for whisper.cpp, whose model (`--ggml`) is a file
of its own. The first round is not counted.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import edgespec
from edgespec.audio.resampling import resampled
from edgespec.audio.sound_file import open_sound
from record import begin, write_result

Samples = npt.NDArray[np.float32]
Way = Callable[[Samples], str]


def edgespec_ways(folder: str, threads: int, language: str) -> dict[str, Way]:
    """Plain decoding, and the pair's drafters, in each format of the target."""
    ways: dict[str, Way] = {}
    manifest = edgespec.load(folder, threads=threads).manifest
    for target_format in manifest.target.variants:
        pair = edgespec.load(folder, threads=threads, target_format=target_format)
        for draft in (False, "lookup", *(("model", "both") if pair.draft else ())):
            name = f"edgespec {target_format}, {draft or 'plain'}"
            ways[name] = _edgespec_way(pair, draft, language)
    return ways


def _edgespec_way(pair: edgespec.Pair, draft: bool | str, language: str) -> Way:
    options = {"draft": draft, "language": language, "temperature": 0.0}
    return lambda samples: pair.transcribe(samples, **options).text


def faster_whisper_way(folder: str, threads: int, language: str) -> Way:
    from faster_whisper import WhisperModel

    model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=threads)

    def way(samples: Samples) -> str:
        segments, _ = model.transcribe(
            samples,
            language=language,
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)

    return way


def whisper_cpp_way(file: str, threads: int, language: str) -> Way:
    from pywhispercpp.model import Model

    model = Model(
        file,
        n_threads=threads,
        language=language,
        temperature_inc=0.0,
        no_context=True,
        print_progress=False,
        print_realtime=False,
    )
    return lambda samples: " ".join(part.text.strip() for part in model.transcribe(samples))


def word_error_rate(expected: str, found: str) -> float:
    """Words to insert, delete or replace, as a share of the expected ones; without punctuation."""
    wanted, given = (re.findall(r"[\w']+", text.lower()) for text in (expected, found))
    distances = np.arange(len(given) + 1)
    for word in wanted:
        before, distances = distances, distances + 1
        for index, other in enumerate(given):
            replaced = before[index] + (word != other)
            distances[index + 1] = min(replaced, before[index + 1] + 1, distances[index] + 1)
    return float(distances[-1] / len(wanted))


def timed(way: Way, sounds: Sequence[Samples]) -> tuple[float, list[str]]:
    """Seconds for all sounds, and their texts."""
    began = time.perf_counter()
    texts = [way(samples) for samples in sounds]
    return time.perf_counter() - began, texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--ctranslate2", help="folder of faster-whisper's model")
    parser.add_argument("--ggml", help="whisper.cpp's model")
    parser.add_argument("--sound", type=Path, nargs="+", required=True)
    parser.add_argument("--language", default="en")
    parser.add_argument("--rounds", type=int, default=3)
    options, record = begin(parser)
    ways = edgespec_ways(options.pair, options.threads, options.language)
    if options.ctranslate2:
        name = "faster-whisper int8"
        ways[name] = faster_whisper_way(options.ctranslate2, options.threads, options.language)
    if options.ggml:
        ways["whisper.cpp"] = whisper_cpp_way(options.ggml, options.threads, options.language)
    opened = [resampled(open_sound(path)) for path in options.sound]
    sounds = [sound.read(0, sound.length) for sound in opened]
    texts = [Path(f"{path}.txt").read_text(encoding="utf-8") for path in options.sound]
    length = sum(map(len, sounds)) / 16_000
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, float] = {}
    for round_ in range(options.rounds + 1):
        for name, way in ways.items():
            taken, found = timed(way, sounds)
            if round_:
                seconds[name].append(taken)
            errors = [word_error_rate(*both) for both in zip(texts, found, strict=True)]
            rates[name] = statistics.mean(errors)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    best = min((name for name in median if name.startswith("edgespec")), key=lambda n: median[n])
    print(f"{length:.0f} s of sound; ratios to {best}")
    for name, value in median.items():
        print(
            f"{name:32} {value:7.2f} s  {value / median[best]:5.2f}  WER {rates[name]:.1%}",
            flush=True,
        )
    write_result(options, record, sound_seconds=length, seconds=seconds, word_error_rates=rates)


if __name__ == "__main__":
    main()
