"""Huge pages for weights: processes with and without them, alternating.

    python benchmarks/huge_pages.py PAIR --target-format int8

Prints milliseconds of target calls with m positions and of whole generations, and the ratio
huge / small. Each run has a process of its own: two copies of a model in one process slow each
other down by more than pages do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

import edgespec
from edgespec_runtimes.ort import session
from record import begin, write_result

POSITIONS = (2, 5, 9)
WAYS = {
    "plain": {"draft": False},
    "γ 3": {"draft": "model", "gamma": 3},
    "γ auto": {"gamma": "auto"},
    "γ auto, sampled": {"gamma": "auto", "temperature": 0.8, "top_p": 0.95},
}
PROMPT = "Explain photosynthesis to a ten-year-old."
PROCESSES, CALLS, TEXTS, TOKENS = 8, 40, 3, 48


def timed(run: Callable[[], object], repeats: int) -> float:
    """Median milliseconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times))


def measure(
    folder: str, target_format: str, threads: int, *, chat: bool, huge: bool
) -> dict[str, float]:
    if not huge:
        session.on_huge_pages = nullcontext
    pair = edgespec.load(folder, target_format=target_format, threads=threads)
    prompt = pair.encode(PROMPT, chat)
    pair.target.prefill(prompt)
    length = pair.target.length

    def call(m: int) -> None:
        pair.target.rewind(length)
        pair.target.score([7] * m)

    def generate(way: str) -> None:
        pair.generate(prompt, max_new_tokens=TOKENS, seed=0, **WAYS[way])

    calls = {f"m = {m}": timed(lambda m=m: call(m), CALLS) for m in POSITIONS}
    return calls | {way: timed(lambda way=way: generate(way), TEXTS) for way in WAYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--target-format", required=True)
    parser.add_argument("--chat", action="store_true")
    options, record = begin(parser)
    fresh = multiprocessing.get_context("spawn")
    found: dict[str, list[dict[str, float]]] = {"huge": [], "small": []}
    for _ in range(PROCESSES):
        for name, runs in found.items():
            with fresh.Pool(1) as process:
                setting = {"chat": options.chat, "huge": name == "huge"}
                arguments = (options.pair, options.target_format, options.threads)
                runs.append(process.apply(measure, arguments, setting))
    rows = []
    for what in found["huge"][0]:
        ms = {name: float(np.median([run[what] for run in runs])) for name, runs in found.items()}
        rows.append({"what": what, **ms, "ratio": ms["huge"] / ms["small"]})
        print(f"{what:16} huge {ms['huge']:8.2f} ms  small {ms['small']:8.2f} ms", end="  ")
        print(f"ratio {rows[-1]['ratio']:.3f}")
    about = {"pair": options.pair, "target": options.target_format}
    n = {"processes": PROCESSES, "calls": CALLS, "texts": TEXTS}
    write_result(options, record, **about, n=n, rows=rows)


if __name__ == "__main__":
    main()
