"""Which number format should a draft have? Formats of one draft in turns, over plain decoding.

    python benchmarks/draft_formats.py build/qwen --target-format int4 --drafts int8 int4-int8

The pair has the draft in these formats (`edgespec export … --draft-format int8 --draft-format
int4-int8`). Each prompt is answered plainly and with every format (draft and lookup, γ "auto",
greedy) before the next one, in an order that changes. Prints, for each kind of prompt, medians of
decoding over plain, and tokens of a call of the target; texts are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median
from typing import Any

import edgespec
from record import begin, write_result
from ways import PLAIN, Run, Way, add_prompts, answered, over


def row(kind: str, runs: Sequence[Run], formats: Iterable[str]) -> dict[str, Any]:
    """Medians of each format."""
    medians = {
        name: {
            "decoding": over(runs, name, PLAIN, "decoding"),
            "per_call": median(run[name].per_call for run in runs),
        }
        for name in formats
    }
    return {"kind": kind, "runs": len(runs), **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--target-format")
    parser.add_argument("--drafts", nargs="+", required=True, help="formats of the draft")
    add_prompts(parser)
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
    plain = Way(pairs[options.drafts[0]], {"draft": False})
    drafted = {name: Way(pair, {"draft": "both"}) for name, pair in pairs.items()}
    runs, different = answered({PLAIN: plain, **drafted}, options)
    rows = [row(kind, of_kind, pairs) for kind, of_kind in runs.items()]
    for found in rows:
        figures = (f"{n} {found[n]['decoding']:.2f} ({found[n]['per_call']:.2f})" for n in pairs)
        print(f"{found['kind']:12} {'  '.join(figures)}")
    means = {name: geometric_mean(found[name]["decoding"] for found in rows) for name in pairs}
    print("geometric mean of decoding:", {name: round(mean, 3) for name, mean in means.items()})
    print(f"{different} texts differ from the plain one")
    write_result(options, record, rows=rows, geometric_mean=means, different=different)


if __name__ == "__main__":
    main()
