"""One thread against two, alone and while other programs run: tokens/s and their ratios.

    python benchmarks/threads_in_use.py build/smollm2 --busy 0 1 2 4 --json FILE

Both counts take turns on the same prompt, so that a machine that drifts decides nothing. `--busy`
starts so many processes that compute all the time beside them; 0 is a machine without them. Run it
on a machine that is otherwise quiet: the load that it finds is in the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import edgespec

PROMPT = "Explain to a child why the sky is blue, and why it is red in the evening."
BUSY = "while True: pass"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute while the block runs."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def rate(pair: edgespec.Pair, tokens: int, draft: bool) -> float:
    """Tokens/s of a text of so many tokens."""
    begun = time.perf_counter()
    made = pair.generate(PROMPT, max_new_tokens=tokens, ignore_eos=True, draft=draft)
    return len(made.token_ids) / (time.perf_counter() - begun)


def measured(
    pairs: dict[int, edgespec.Pair], turns: int, tokens: int, draft: bool
) -> dict[str, object]:
    """Medians of the rates by the number of threads, and the quartiles of their ratio."""
    one, many = sorted(pairs)
    rates: dict[int, list[float]] = {count: [] for count in pairs}
    for turn in range(turns):
        for count in (one, many) if turn % 2 else (many, one):
            rates[count].append(rate(pairs[count], tokens, draft))
    ratios = [b / a for a, b in zip(rates[one], rates[many], strict=True)]
    return {
        "draft": draft,
        "tokens_per_second": {count: statistics.median(found) for count, found in rates.items()},
        f"{many} over {one}": statistics.quantiles(ratios, n=4),
        "turns": turns,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--threads", type=int, nargs=2, default=[1, os.cpu_count() or 2])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pairs = {count: edgespec.load(options.pair, threads=count) for count in options.threads}
    if len(pairs) != 2:
        parser.error(f"--threads are {options.threads}; give two different numbers")
    rows = []
    found = os.getloadavg()
    for count in options.busy:
        with busy(count):
            for draft in (False, True):
                row = measured(pairs, options.turns, options.tokens, draft)
                rows.append({"busy": count, **row})
                print(json.dumps(rows[-1]), flush=True)
    if options.json is not None:
        result = {"load_before": found, "cores": os.cpu_count(), "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
