"""Several texts at once against one after the other: the same texts, and how much faster.

    python benchmarks/many_texts.py build/smollm2 --texts 8 --prompts 32
    python benchmarks/many_texts.py build/en-de --texts 16 --prompts 100

For each way of sampling, all prompts are answered one after the other with `Pair.generate`, once
plainly and once with the default draft, and then with `Pair.generate_many`; each in turn, several
times. Ratios are of total tokens per second, prompts included; the median of the repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import edgespec
from record import begin, write_result
from same_texts import is_chat, prompts_for

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled (0.8, top-p 0.95)": {"temperature": 0.8, "top_p": 0.95},
}


def timed(make: Callable[[], list[edgespec.Generation]]) -> tuple[list[list[int]], float]:
    """The texts' tokens, and tokens per second."""
    began = time.perf_counter()
    results = make()
    seconds = time.perf_counter() - began
    texts = [result.token_ids for result in results]
    return texts, sum(map(len, texts)) / seconds


def compared(
    pair: edgespec.Pair, prompts: Sequence[str], options: argparse.Namespace, way: dict[str, Any]
) -> dict[str, Any]:
    """Speeds of each way, and whether all texts are the same."""
    common = {"chat": is_chat(options.pair), "max_new_tokens": options.tokens, **way}

    def alone(**more: Any) -> list[edgespec.Generation]:
        return [
            pair.generate(prompt, seed=seed, **common, **more)
            for seed, prompt in enumerate(prompts)
        ]

    runs: dict[str, Callable[[], list[edgespec.Generation]]] = {
        "alone, plain": lambda: alone(draft=False),
        "alone, default draft": alone,
        "together": lambda: list(
            pair.generate_many(prompts, texts=options.texts, seed=0, **common)
        ),
    }
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    texts: dict[str, list[list[int]]] = {}
    for _ in range(options.repeats):
        for name, run in runs.items():
            texts[name], speed = timed(run)
            speeds[name].append(speed)
    wanted = texts["alone, plain"]
    different = sum(
        text != plain for found in texts.values() for text, plain in zip(found, wanted, strict=True)
    )
    return {name: median(found) for name, found in speeds.items()} | {"different": different}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--texts", type=int, default=8, help="at once")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--repeats", type=int, default=3)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads)
    prompts = prompts_for(options.pair)[: options.prompts]
    rows = {}
    for name, way in WAYS.items():
        rows[name] = row = compared(pair, prompts, options, way)
        plain, drafted = row["alone, plain"], row["alone, default draft"]
        together = row["together"]
        print(
            f"{name}: {together:.0f} tokens/s with {options.texts} at once, {plain:.0f} plain, "
            f"{drafted:.0f} with the draft: {together / plain:.2f} and {together / drafted:.2f} "
            f"times; {row['different']} texts differ",
            flush=True,
        )
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
