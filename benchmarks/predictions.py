"""How well `edgespec tune` predicts: predicted and measured speed-up of every drafter.

    python benchmarks/predictions.py build/en-de=descriptions-valid.tsv:16 \\
        build/smollm2=examples/smollm2_draft/held_out.txt:8 --json FILE

Each argument is a pair, a file with one prompt per line (or a table with prompts in its first
column) and a number of prompts: the first prompts are one sample, the next ones another. Without a
file, each built-in kind of prompt is a sample. A row is a target variant, a sample and a draft that
is predicted to be faster. Greedy. Rows with a large error are included.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgespec.artifact.manifest import read_manifest
from edgespec.artifact.text_file import read_lines
from edgespec.core.distribution_options import Sampling
from edgespec.measure.tune import tune
from edgespec.measure.tune_result import Trial
from edgespec.pair.opening.sample_prompts import prompts_for
from record import begin, write_result

TOLERANCE = 0.1
SAMPLES = 2  # of each file


def samples(argument: str) -> Iterator[tuple[Path, str, list[str]]]:
    """Pair, name of the sample, its prompts."""
    pair, _, file = argument.partition("=")
    if file:
        name, _, count = file.rpartition(":")
        lines = [line.partition("\t")[0] for line in read_lines(Path(name))]
        for first in range(0, SAMPLES * int(count), int(count)):
            last = first + int(count)
            yield Path(pair), f"{Path(name).stem} {first + 1}–{last}", lines[first:last]
        return
    for kind, prompts in prompts_for(read_manifest(Path(pair))).items():
        yield Path(pair), kind, prompts


def row(pair: Path, text: str, trial: Trial) -> dict[str, Any]:
    return {
        "pair": pair.name,
        "text": text,
        "target": trial.target_format,
        "draft": " ".join(filter(None, (trial.kind, trial.draft_format))),
        "gamma": trial.gamma,
        "acceptance": trial.acceptance,
        "predicted": trial.predicted,
        "measured": trial.measured,
        "error": trial.predicted / trial.measured - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--tokens", type=int, default=96)
    options, record = begin(parser)
    rows: list[dict[str, Any]] = []
    for argument in options.what:
        for pair, text, prompts in samples(argument):
            tuning = tune(
                pair,
                prompts,
                sampling=Sampling(),
                max_new_tokens=options.tokens,
                threads=[options.threads],
                chat=read_manifest(pair).chats,
            )
            for trial in tuning.trials:
                if trial.gamma:
                    rows.append(row(pair, text, trial))
                    print(rows[-1], flush=True)
    near = sum(abs(entry["error"]) <= TOLERANCE for entry in rows)
    print(f"{near} of {len(rows)} within {TOLERANCE:.0%}")
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
