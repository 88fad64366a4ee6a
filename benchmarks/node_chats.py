"""Speed of chats in Node.js against Python without kernels, in turns on the same prompts.

    EDGESPEC_KERNELS=0 python benchmarks/node_chats.py build/smollm2 --json FILE

Needs `npm ci && npm run build` in runtimes/js. Both draft with γ 3, since each
estimates costs by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import edgespec
from record import begin, write_result

QUESTIONS = (
    "Why is the sky blue?",
    "Write a short story about a cat who finds a key.",
    "List five ways to save water at home.",
    "Explain what a compiler does to a beginner.",
)
WAYS = {"plain": False, "drafted": True}
GAMMA = 3


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=96)
    options, record = begin(parser)
    if os.environ.get("EDGESPEC_KERNELS") != "0":
        parser.error("EDGESPEC_KERNELS is not 0; set it, since Node.js has no kernels")
    script = Path(__file__).with_suffix(".mjs")
    command = ["node", str(script), str(options.pair), str(options.threads)]
    rows: list[dict[str, Any]] = []
    pair = edgespec.load(options.pair, threads=options.threads)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        record["node"] = json.loads(node.stdout.readline())["version"]
        for round_number in range(options.rounds):
            for question in QUESTIONS:
                for way, draft in WAYS.items():
                    asked = {"prompt": question, "tokens": options.tokens, "draft": draft}
                    print(json.dumps({**asked, "gamma": GAMMA}), file=node.stdin, flush=True)
                    answer = json.loads(node.stdout.readline())
                    ours = _answered(pair, question, options.tokens, draft=draft)
                    stats = answer["stats"]
                    speeds = (stats["tokens"] / stats["seconds"], ours.stats.tokens_per_second)
                    same = answer["tokenIds"] == list(ours.token_ids)
                    rows.append(
                        {"round": round_number, "prompt": question, "way": way, "same": same}
                    )
                    rows[-1] |= {"node": round(speeds[0], 1), "python": round(speeds[1], 1)}
        node.stdin.close()
    ratios = {way: _ratios(rows, way) for way in WAYS}
    for way, (median, least, most) in ratios.items():
        print(f"{way}: Node / Python {median:.2f} ({least:.2f} to {most:.2f})")
    print(f"{sum(row['same'] for row in rows)} of {len(rows)} texts are the same")
    write_result(options, record, gamma=GAMMA, ratios=ratios, rows=rows)


def _answered(
    pair: edgespec.Pair, question: str, tokens: int, *, draft: bool
) -> edgespec.Generation:
    gamma = {"gamma": GAMMA} if draft else {}
    return pair.generate(
        question,
        chat=True,
        max_new_tokens=tokens,
        ignore_eos=True,
        temperature=0,
        draft=draft,
        **gamma,
    )


def _ratios(rows: list[dict[str, Any]], way: str) -> tuple[float, float, float]:
    found = [row["node"] / row["python"] for row in rows if row["way"] == way]
    return statistics.median(found), min(found), max(found)


if __name__ == "__main__":
    main()
