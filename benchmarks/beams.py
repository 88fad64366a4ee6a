"""Beam search of four against greedy plain decoding, and against CTranslate2's, line by line.

    pip install ctranslate2
    python benchmarks/beams.py build/en-de models/en-de-target --data en-de.tsv

All weights int8. Each way translates one line after the other, in turns with the others; the time
of all lines, median of the repeats. Without ctranslate2 its rows are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import edgespec
from peers.ctranslate2_model import ctranslate2_model
from record import begin, write_result

BEAMS = 4

Way = Callable[[str], object]


def edgespec_ways(folder: Path, threads: int, tokens: int) -> dict[str, Way]:
    pair = edgespec.load(folder, threads=threads)
    return {
        "edgespec, greedy, plain": lambda line: pair.generate(
            line, draft=False, max_new_tokens=tokens
        ),
        f"edgespec, {BEAMS} beams": lambda line: pair.beam_search(
            line, num_beams=BEAMS, max_new_tokens=tokens
        ),
    }


def ctranslate2_ways(checkpoint: Path, threads: int, tokens: int) -> dict[str, Way]:
    translate = ctranslate2_model(checkpoint, "int8", threads)

    def way(beams: int) -> Way:
        return lambda line: translate([line], beam_size=beams, max_decoding_length=tokens)

    return {"CTranslate2, greedy": way(1), f"CTranslate2, {BEAMS} beams": way(BEAMS)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("checkpoint", type=Path, help="that the pair's target was exported from")
    parser.add_argument("--data", type=Path, required=True, help="a line each, up to a tab")
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--repeats", type=int, default=5)
    options, record = begin(parser)
    text = options.data.read_text(encoding="utf-8").splitlines()[: options.lines]
    lines = [line.partition("\t")[0] for line in text]
    ways = edgespec_ways(options.pair, options.threads, options.tokens)
    if importlib.util.find_spec("ctranslate2"):
        ways |= ctranslate2_ways(options.checkpoint, options.threads, options.tokens)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(options.repeats + 1):  # the first is a warm-up
        for name, way in ways.items():
            began = time.perf_counter()
            for line in lines:
                way(line)
            if repeat:
                found[name].append(time.perf_counter() - began)
    seconds = {name: median(values) for name, values in found.items()}
    base = seconds["edgespec, greedy, plain"]
    for name, taken in seconds.items():
        print(f"{name}: {taken:.2f} s, {taken / base:.2f} times greedy plain")
    write_result(options, record, seconds=seconds)


if __name__ == "__main__":
    main()
