"""Which number format should a draft have? Formats of one draft in turns, over plain decoding.

    python benchmarks/draft_formats.py build/qwen --target-format int4 --drafts int8 int4-int8

The pair has the draft in these formats (`edgespec export … --draft-format int8 --draft-format
int4-int8`). Each prompt is answered plainly and with every format (draft and lookup, γ "auto",
greedy) before the next one, in an order that changes. Prints, for each kind of prompt, medians of
decoding over plain, and tokens of a call of the target; texts are compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import geometric_mean, median

import edgespec
from drafters import PROMPTS, Speed, speed
from peers.prompts import Request, first_of_kinds, of_file
from record import begin, write_result

PLAIN = "plain"


def answered(
    pairs: dict[str, edgespec.Pair], request: Request, turn: int
) -> tuple[dict[str, Speed], int]:
    """The speed of plain decoding and of each format; how many texts are not the plain one."""
    ways = [PLAIN, *pairs]
    speeds, texts = {}, {}
    for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
        pair = pairs.get(way) or next(iter(pairs.values()))
        made = pair.generate(
            request.prompt,
            chat=True,
            max_new_tokens=request.max_new_tokens,
            draft=False if way == PLAIN else "both",
        )
        speeds[way], texts[way] = speed(made.stats), made.token_ids
    return speeds, sum(text != texts[PLAIN] for text in texts.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--target-format")
    parser.add_argument("--drafts", nargs="+", required=True, help="formats of the draft")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])
    options, record = begin(parser)
    pairs = {
        name: edgespec.load(
            options.pair,
            threads=options.threads,
            target_format=options.target_format,
            draft_format=name,
        )
        for name in options.drafts
    }
    runs: dict[str, list[dict[str, Speed]]] = {}
    different = 0
    requests = [request for file in options.prompts for request in of_file(file)]
    for turn, request in enumerate(first_of_kinds(requests, options.each)):
        for repeat in range(options.repeats):
            speeds, others = answered(pairs, request, turn + repeat)
            runs.setdefault(request.kind, []).append(speeds)
            different += others
    rows = [
        {
            "kind": kind,
            "runs": len(of_kind),
            **{
                name: {
                    "decoding": median(r[name].decoding / r[PLAIN].decoding for r in of_kind),
                    "per_call": median(r[name].per_call for r in of_kind),
                }
                for name in pairs
            },
        }
        for kind, of_kind in runs.items()
    ]
    for row in rows:
        figures = (f"{n} {row[n]['decoding']:.2f} ({row[n]['per_call']:.2f})" for n in pairs)
        print(f"{row['kind']:12} {'  '.join(figures)}")
    means = {name: geometric_mean(row[name]["decoding"] for row in rows) for name in pairs}
    print("geometric mean of decoding:", {name: round(mean, 3) for name, mean in means.items()})
    print(f"{different} texts differ from the plain one")
    write_result(options, record, rows=rows, geometric_mean=means, different=different)


if __name__ == "__main__":
    main()
