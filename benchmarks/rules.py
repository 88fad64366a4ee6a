"""Sampled text with the coupled, the token and the block rule, and without a draft, alternating.

    python benchmarks/rules.py build/smollm2 --json FILE
    python benchmarks/rules.py build/en-de --data ../shared/data/en_de/valid.tsv --json FILE

Chat pairs answer the prompts of six kinds (prompts/six_kinds.json), others translate the sentences
of --data (first column of a TSV). Each repeat has a seed of its own. Acceptance and tokens per call
are of all repeats together; speeds are over plain decoding in the same repeat, without the prompt
and the first round, and the median is given. "Coupled, no candidates": the target reports that it
scores none. Every coupled text is compared with the plain text of its seed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import edgespec
from edgespec.core.stats import Rate
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
SAMPLINGS = {
    "0.8, top-p 0.95": {"temperature": 0.8, "top_p": 0.95},
    "1": {"temperature": 1.0},
}
WAYS = {
    "plain": {"draft": False},
    "coupled": {"rule": "coupled"},
    "coupled, no candidates": {"rule": "coupled"},
    "token": {"rule": "token"},
    "block": {"rule": "block"},
}
LIMIT = 128


def requests(data: Path | None, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The prompts, as arguments of `Pair.generate`."""
    if data is not None:
        lines = data.read_text(encoding="utf-8").splitlines()
        return [{"prompt": line.split("\t")[0], "max_new_tokens": LIMIT} for line in lines]
    return [
        {"prompt": entry["prompt"], "max_new_tokens": entry["max_new_tokens"], "chat": True}
        for entry in json.loads(PROMPTS.read_text(encoding="utf-8"))
        if not kinds or entry["kind"] in kinds
    ]


def repeat(
    pair: edgespec.Pair, prompts: Sequence[dict[str, Any]], seed: int, **sampling: float
) -> tuple[dict[str, Rate], int]:
    """The speed of every way on all prompts, and how many coupled texts are not the plain one."""
    rates = {way: Rate() for way in WAYS}
    scores_candidates = pair.target.scores_candidates
    different = 0
    for index, prompt in enumerate(prompts):
        texts = {}
        for way, options in WAYS.items():
            pair.target.scores_candidates = scores_candidates and "no cand" not in way
            made = pair.generate(seed=1000 * seed + index, **prompt, **sampling, **options)
            rates[way].add(made.stats)
            texts[way] = made.token_ids
        pair.target.scores_candidates = scores_candidates
        different += sum(texts[way] != texts["plain"] for way in WAYS if "coupled" in way)
    return rates, different


def row(sampling: str, way: str, repeats: Sequence[dict[str, Rate]]) -> dict[str, Any]:
    """One way's totals, and the median of its speeds over plain decoding."""
    rates = [rates[way] for rates in repeats]
    evaluated, calls = sum(r.evaluated for r in rates), sum(r.target_calls for r in rates)
    return {
        "temperature": sampling,
        "way": way,
        "tokens": sum(r.all_tokens for r in rates),
        "acceptance": sum(r.accepted for r in rates) / evaluated if evaluated else None,
        "tokens_per_call": sum(r.all_tokens for r in rates) / calls,
        "over_plain": median(rates[way].over(rates["plain"]) for rates in repeats),
        "loop_share": 1 - sum(r.model_seconds for r in rates) / sum(r.all_seconds for r in rates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--kind", action="append", default=[], help="of the six; may be repeated")
    parser.add_argument("--prompts", type=int, help="use every n-th prompt, so many of them")
    parser.add_argument("--repeats", type=int, default=3)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    prompts = requests(options.data, options.kind)
    if options.prompts:
        prompts = prompts[:: len(prompts) // options.prompts][: options.prompts]
    rows: list[dict[str, Any]] = []
    for name, sampling in SAMPLINGS.items():
        found = [repeat(pair, prompts, seed, **sampling) for seed in range(options.repeats)]
        different = sum(count for _, count in found)
        print(f"temperature {name}: {different} coupled texts differ from the plain one")
        for way in WAYS:
            rows.append(row(name, way, [rates for rates, _ in found]) | {"different": different})
            last = rows[-1]
            print(
                f"  {way:22} accepted {last['acceptance'] or 0:.3f}, "
                f"{last['tokens_per_call']:.2f} tokens per call, ×{last['over_plain']:.2f}, "
                f"loop {last['loop_share']:.1%}, {last['tokens']} tokens"
            )
    write_result(
        options,
        record,
        kinds=options.kind,
        prompts=len(prompts),
        repeats=options.repeats,
        rows=rows,
    )


if __name__ == "__main__":
    main()
