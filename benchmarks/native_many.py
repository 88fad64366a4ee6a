"""Several texts at once in libedgespec beside Python's batch of the same pair: tokens a second.

    python benchmarks/native_many.py build/smollm2 --target-format int8 --texts 16

Needs `make native` and a quiet machine. Both make the same prompts of `same_texts.py`, so many at
once, greedily and sampled, plainly and with a draft of as many tokens as pay, in turns, so drift
of the machine affects both; their texts are compared, and each prompt's with a session's. Where the
machine is not quiet, times of the processor say more than those of the clock, with one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import edgespec
from record import begin, write_result
from same_texts import prompts_for

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
native_library = import_module("native_library")  # the same binding that the tests use

Texts = list[list[int]]
# Python's default also looks tokens up, which the library does not beside a draft model.
PYTHON: dict[str, dict[str, Any]] = {
    "plain": {"draft": False},
    "model": {"draft": "model"},
    "default": {},
}
MODEL = {"draft": 1, "gamma": -1}
NATIVE: dict[str, dict[str, Any]] = {"plain": {"draft": 0}, "model": MODEL, "default": MODEL}
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 0.8, "top_p": 0.95},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--texts", type=int, default=16, help="at once")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--rounds", type=int, default=5)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    given = {"target_format": options.target_format} if options.target_format else {}
    model = native_library.NativeModel(options.pair, threads=options.threads, **given)
    prompts = [
        pair.tokenizer.encode(text).ids for text in prompts_for(options.pair)[: options.prompts]
    ]
    rows = {}
    for sampling, values in SAMPLING.items():
        for way in PYTHON:
            common = {"max_new_tokens": options.tokens, **values}
            rows[f"{sampling}, {way}"] = row = compared(
                lambda way=way, common=common: python_texts(
                    pair, prompts, options.texts, {**PYTHON[way], **common}
                ),
                lambda way=way, common=common: native_texts(
                    model, prompts, options.texts, {**NATIVE[way], **common}
                ),
                options.rounds,
            )
            print(f"{sampling}, {way}: {json.dumps(row)}", flush=True)
    session = model.session()
    alone = [session.text(one, draft=0, max_new_tokens=options.tokens) for one in prompts]
    together = native_texts(
        model, prompts, options.texts, {**MODEL, "max_new_tokens": options.tokens}
    )
    if alone != together:
        sys.exit("the texts of a batch are not those of a session")
    write_result(options, record, rows=rows)


def python_texts(pair: edgespec.Pair, prompts: Texts, texts: int, given: dict[str, Any]) -> Texts:
    return [one.token_ids for one in pair.generate_many(prompts, texts=texts, seed=0, **given)]


def native_texts(model: Any, prompts: Texts, texts: int, given: dict[str, Any]) -> Texts:
    """Each text is added as soon as there is a place for it, as Python does."""
    batch, added = model.batch(texts), 0
    live = 0
    while live or added < len(prompts):
        while live < texts and added < len(prompts):
            batch.add(prompts[added], seed=added, **given)
            added, live = added + 1, live + 1
        number = batch.next()
        live -= bool(batch.made[number].ending)
    batch.close()
    return [batch.made[number].tokens for number in range(len(prompts))]


def compared(
    python: Callable[[], Texts], native: Callable[[], Texts], rounds: int
) -> dict[str, Any]:
    """Tokens a second of both, and the median of their ratio; prompts are included."""
    texts = python()
    if native() != texts:
        sys.exit("the texts differ: nothing to compare")
    tokens = sum(map(len, texts))
    seconds: dict[str, list[float]] = {"python": [], "native": []}
    cpu: dict[str, list[float]] = {"python": [], "native": []}
    sides = {"python": python, "native": native}
    for number in range(rounds):
        for side in sorted(sides, reverse=bool(number % 2)):
            began, spent = time.perf_counter(), time.process_time()
            sides[side]()
            seconds[side].append(time.perf_counter() - began)
            cpu[side].append(time.process_time() - spent)
    ratios = [old / new for old, new in zip(seconds["python"], seconds["native"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    return {
        "python_tokens_per_second": round(tokens / median(seconds["python"]), 1),
        "native_tokens_per_second": round(tokens / median(seconds["native"]), 1),
        "ratio": round(median(ratios), 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "ratio_of_fastest": round(min(seconds["python"]) / min(seconds["native"]), 3),
        "ratio_of_processor_time": round(min(cpu["python"]) / min(cpu["native"]), 3),
    }


if __name__ == "__main__":
    main()
