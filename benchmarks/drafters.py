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
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import edgespec
from edgespec.core.stats import Stats
from peers.prompts import Request, first_of_kinds, of_file
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"draft": False},
    "lookup": {"draft": "lookup"},
    "model": {"draft": "model"},
    "both": {"draft": "both"},
    "both, γ 3": {"draft": "both", "gamma": 3},
}
DEFAULT = "both"


class Speed(NamedTuple):
    """Tokens a second without the prompt and the first round, and of the whole generation; and
    tokens of a call of the target, which are 1 of plain decoding."""

    decoding: float
    whole: float
    per_call: float


def speed(stats: Stats) -> Speed:
    return Speed(
        stats.decode_tokens_per_second, stats.tokens_per_second, stats.tokens_per_target_call
    )


def answered(
    pair: edgespec.Pair, request: Request, turn: int, **sampling: Any
) -> tuple[dict[str, Speed], int]:
    """The speed of every way, and how many texts are not the plain one."""
    names = list(WAYS)
    speeds, texts = {}, {}
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        made = pair.generate(
            request.prompt,
            chat=True,
            max_new_tokens=request.max_new_tokens,
            **WAYS[name],
            **sampling,
        )
        speeds[name] = speed(made.stats)
        texts[name] = made.token_ids
    return speeds, sum(text != texts["plain"] for text in texts.values())


def row(kind: str, runs: Sequence[dict[str, Speed]]) -> dict[str, Any]:
    """Medians of the speeds over plain decoding."""
    found: dict[str, Any] = {"kind": kind, "runs": len(runs)}
    for field in Speed._fields:
        ratios = {
            way: median(getattr(run[way], field) / getattr(run["plain"], field) for run in runs)
            for way in WAYS
        }
        best = max((way for way in WAYS if way != DEFAULT), key=lambda way: ratios[way])
        ratio = median(getattr(run[DEFAULT], field) / getattr(run[best], field) for run in runs)
        found[field] = ratios | {"best": best, "default_over_best": ratio}
    return found


def show(found: dict[str, Any]) -> None:
    for field in Speed._fields:
        values = found[field]
        ways = "  ".join(f"{way} {values[way]:.2f}" for way in WAYS if way != "plain")
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
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    runs: dict[str, list[dict[str, Speed]]] = {}
    different = 0
    requests = [request for file in options.prompts for request in of_file(file)]
    for turn, request in enumerate(first_of_kinds(requests, options.each)):
        for repeat in range(options.repeats):
            sampling = {
                "temperature": options.temperature,
                "top_p": options.top_p,
                "seed": 1000 * repeat + turn,
            }
            speeds, others = answered(pair, request, turn + repeat, **sampling)
            runs.setdefault(request.kind, []).append(speeds)
            different += others
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
