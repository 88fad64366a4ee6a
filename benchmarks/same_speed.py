"""Whether two commits generate equally fast: a process of each, in turns.

    python benchmarks/same_speed.py OLD/.venv/bin/python OLD/build/en-de \\
        NEW/.venv/bin/python NEW/build/en-de --target-format int8

Each process imports the `edgespec` of its own environment, which has its own kernels, and runs the
pair that it exported. Both generate the same prompts of `same_texts.py`, greedily, plainly and
with the default draft. Which goes first alternates, so drift of the machine affects both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles

from record import begin, write_result

WAYS = {"plain": {"draft": False}, "default draft": {}}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("old_python", "old_pair", "new_python", "new_pair"):
        parser.add_argument(name)
    parser.add_argument("--target-format", default="int8")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=30)
    options, record = begin(parser)
    workers = {
        "old": _worker(options.old_python, options.old_pair, options),
        "new": _worker(options.new_python, options.new_pair, options),
    }
    rows = []
    for way in WAYS:
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        for number in range(options.rounds):
            for side in sorted(workers, reverse=bool(number % 2)):
                seconds[side].append(_turn(workers[side], way))
        ratios = [old / new for old, new in zip(seconds["old"], seconds["new"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        row = {
            "way": way,
            "old_us": round(median(seconds["old"]) * 1e6),
            "new_us": round(median(seconds["new"]) * 1e6),
            "speed": round(median(ratios), 3),
            "quartiles": [round(low, 3), round(high, 3)],
        }
        rows.append(row)
        print(
            f"{way:14} {row['old_us']} µs and {row['new_us']} µs a token; speed of new over old "
            f"{row['speed']} (quartiles {row['quartiles'][0]} to {row['quartiles'][1]}, "
            f"n {options.rounds})"
        )
    write_result(options, record, rows=rows)


def _worker(python: str, pair: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    counts = (options.prompts, options.tokens, options.threads)
    command = [python, __file__, "--work", pair, options.target_format, *map(str, counts)]
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert worker.stdout is not None
    if worker.stdout.readline() != "ready\n":
        sys.exit(f"{pair} cannot be run by {python}; its message is above")
    return worker


def _turn(worker: subprocess.Popen[str], way: str) -> float:
    """Seconds a token, over all prompts."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{way}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def work(pair: str, target_format: str, prompts: int, tokens: int, threads: int) -> None:
    """One side: generates all prompts for each line of standard input, and writes the time."""
    import edgespec
    from same_texts import is_chat, prompts_for

    folder = Path(pair)
    given, chat = prompts_for(folder)[:prompts], is_chat(folder)
    loaded = edgespec.load(folder, target_format=target_format, threads=threads)
    for settings in WAYS.values():
        loaded.generate(given[0], max_new_tokens=tokens, chat=chat, **settings)
    print("ready", flush=True)
    for line in sys.stdin:
        count, began = 0, time.perf_counter()
        for prompt in given:
            text = loaded.generate(
                prompt, max_new_tokens=tokens, chat=chat, **WAYS[line.rstrip("\n")]
            )
            count += len(text.token_ids)
        print((time.perf_counter() - began) / count, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        main()
