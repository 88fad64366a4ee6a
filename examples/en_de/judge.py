"""Judge an exported En→De pair on held-out lines: python examples/en_de/judge.py PAIR VALID.tsv

Prints the translation quality of the target, the acceptance rate of the draft, and the speed-up on
this machine. Every text with the draft is compared with the text without it.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import sacrebleu

import edgespec
from edgespec import Stats


def texts(pair: edgespec.Pair, lines: list[str], **options: object) -> tuple[list[str], Stats]:
    """One text for each line, and the sums of their statistics."""
    total, out = Stats(), []
    for line in lines:
        result = pair.generate(line, max_new_tokens=250, **options)
        out.append(result.text)
        for name in ("tokens", "target_calls", "drafted", "evaluated", "accepted"):
            setattr(total, name, getattr(total, name) + getattr(result.stats, name))
        for name in ("seconds", "target_seconds", "draft_seconds"):
            setattr(total, name, getattr(total, name) + getattr(result.stats, name))
    return out, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("lines", type=Path, help="English, tab, German")
    parser.add_argument("--target-format")
    parser.add_argument("--draft-format")
    parser.add_argument("--gamma", default="auto")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    rows = [line.split("\t") for line in arguments.lines.read_text("utf-8").splitlines()]
    english, german = [row[0] for row in rows], [row[1] for row in rows]
    pair = edgespec.load(
        arguments.pair, target_format=arguments.target_format, draft_format=arguments.draft_format
    )
    gamma = arguments.gamma if arguments.gamma == "auto" else int(arguments.gamma)
    ratios = []
    for _ in range(arguments.runs):  # in turns, so a drift of the machine affects both
        plain, alone = texts(pair, english, draft=False)
        drafted, both = texts(pair, english, draft="model", gamma=gamma)
        assert drafted == plain, "speculation changed a text"
        ratios.append(alone.seconds / both.seconds)
    fixed, four = texts(pair, english, draft="model", gamma=4)
    assert fixed == plain, "speculation changed a text"
    _, sampled = texts(pair, english, draft="model", gamma=4, temperature=1.0, seed=0)
    step = alone.target_seconds / alone.tokens
    print(f"chrF {sacrebleu.corpus_chrf(plain, [german]).score:.1f}")
    print(f"BLEU {sacrebleu.corpus_bleu(plain, [german]).score:.1f}")
    print(f"texts with and without the draft: all {len(plain)} equal, {alone.tokens} tokens")
    print(f"greedy acceptance {four.acceptance_rate:.3f}")
    print(f"acceptance at temperature 1 (block rule) {sampled.acceptance_rate:.3f}")
    print(f"tokens a target call, gamma 4: {four.tokens_per_target_call:.2f}")
    print(f"c = {four.draft_seconds / four.drafted / step:.3f} (draft's prompt included)")
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"speed-up, gamma {gamma}: {statistics.median(ratios):.2f} ({each})")
    speeds = [stats.tokens / stats.seconds for stats in (alone, both)]
    print(f"tokens/s: {speeds[0]:.0f} plain, {speeds[1]:.0f} with the draft")


if __name__ == "__main__":
    main()
