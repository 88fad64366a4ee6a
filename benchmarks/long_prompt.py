"""Speculation after a long prompt against plain decoding of the same target, alternating.

    python benchmarks/long_prompt.py build/smollm2 docs/decisions/*.md

A chat model is asked to summarise the beginning of some texts. Greedy; all ways must give the same
text. Speeds are of decoding, without the prompt.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import edgespec
from record import begin, write_result

WAYS = {
    "plain": {"draft": False},
    "lookup, γ auto": {"draft": "lookup"},
    "model, γ 3": {"draft": "model", "gamma": 3},
    "both, γ auto": {"draft": "both"},
}
TOKENS = 96
LENGTHS = (64, 1024, 3900)  # of the texts, in tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--target-format")
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    tokens = pair.encode(
        "\n".join(path.read_text(encoding="utf-8") for path in options.texts), chat=False
    )
    rows = []
    for length in LENGTHS:
        text = pair.tokenizer.decode(tokens[:length])
        results: dict[str, list[edgespec.Generation]] = {way: [] for way in WAYS}
        for _ in range(options.repeats):
            for way, settings in WAYS.items():
                prompt = f"Summarise this text:\n{text}"
                found = pair.generate(prompt, chat=True, max_new_tokens=TOKENS, **settings)
                results[way].append(found)
        speeds = {
            way: median(found.stats.decode_tokens_per_second for found in every)
            for way, every in results.items()
        }
        for way, (found, *_) in results.items():
            assert found.token_ids == results["plain"][0].token_ids
            row = {
                "prompt_tokens": found.prompt_tokens,
                "tokens": found.stats.tokens,
                "way": way,
                "tokens_per_second": speeds[way],
                "over_plain": speeds[way] / speeds["plain"],
                "tokens_per_target_call": found.stats.tokens_per_target_call,
            }
            rows.append(row)
            print(row, flush=True)
    write_result(options, record, target=pair.formats[0], repeats=options.repeats, rows=rows)


if __name__ == "__main__":
    main()
