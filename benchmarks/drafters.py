"""Does γ "auto" find the best way? Drafters and plain decoding on kinds of prompts.

    python benchmarks/drafters.py build/smollm2 --target-format int8 --json FILE
    python benchmarks/drafters.py build/qwen --prompts benchmarks/prompts/coding.json

Each prompt is answered in every way before the next one, in an order that changes from prompt to
prompt. Per kind it prints the median over prompts and repeats of each way's speed over plain
decoding: decoding alone, and the whole generation with its prompt; then tokens of a call of the
target. Last the default ("both") over the best other way of that kind. Texts of all ways are
compared. Sampled texts use the coupled rule.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

import edgespec
from record import begin, write_result
from ways import PLAIN, Run, Speed, Way, add_prompts, answered, over

WAYS: dict[str, dict[str, Any]] = {
    PLAIN: {"draft": False},
    "lookup": {"draft": "lookup"},
    "model": {"draft": "model"},
    "both": {"draft": "both"},
    "both, γ 3": {"draft": "both", "gamma": 3},
}
DEFAULT = "both"


def row(kind: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Medians of the speeds over plain decoding."""
    found: dict[str, Any] = {"kind": kind, "runs": len(runs)}
    for field in Speed._fields:
        ratios = {way: over(runs, way, PLAIN, field) for way in WAYS}
        best = max((way for way in WAYS if way != DEFAULT), key=lambda way: ratios[way])
        best_ratio = over(runs, DEFAULT, best, field)
        found[field] = ratios | {"best": best, "default_over_best": best_ratio}
    return found


def show(found: dict[str, Any]) -> None:
    for field in Speed._fields:
        values = found[field]
        ways = "  ".join(f"{way} {values[way]:.2f}" for way in WAYS if way != PLAIN)
        print(
            f"{found['kind']:12} {field:9} {ways}  "
            f"default over {values['best']}: {values['default_over_best']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--target-format")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    add_prompts(parser)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    sampling = {"temperature": options.temperature, "top_p": options.top_p}
    ways = {name: Way(pair, {**how, **sampling}) for name, how in WAYS.items()}
    runs, different = answered(ways, options)
    rows = [row(kind, of_kind) for kind, of_kind in runs.items()]
    for found in rows:
        show(found)
    mean = {way: geometric_mean(found["decoding"][way] for found in rows) for way in WAYS}
    print("geometric mean of decoding:", {way: round(ratio, 3) for way, ratio in mean.items()})
    print(f"{different} texts differ from the plain one")
    write_result(
        options,
        record,
        target_format=pair.formats[0],
        temperature=options.temperature,
        top_p=options.top_p,
        rows=rows,
        geometric_mean=mean,
        different=different,
    )


if __name__ == "__main__":
    main()
