"""Siblings, other guesses at a drafted place: greedy texts with them and without, in turns.

    python benchmarks/siblings.py build/smollm2 --json FILE

Without them the target says that it scores none, so the draft offers none. Whole generations, by
kind of prompt, with the draft model and prompt lookup in turns, as `edgespec generate` has them.
Needs kernels; see docs/decisions/0019-siblings.md.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import edgespec
from chat_lookup import KINDS
from record import begin, keep


class Turn:
    """Sums of one way over the texts of a kind."""

    def __init__(self) -> None:
        self.tokens = self.calls = self.siblings = self.taken = 0
        self.seconds = 0.0

    def add(self, stats: edgespec.Stats) -> None:
        self.tokens += stats.tokens
        self.calls += stats.target_calls
        self.siblings += stats.siblings
        self.taken += stats.taken
        self.seconds += stats.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    options, record = begin(parser)
    rows: list[dict[str, Any]] = []
    for target_format in edgespec.load(options.pair).manifest.target.variants:
        pair = edgespec.load(options.pair, threads=options.threads, target_format=target_format)
        ways = {"with": True, "without": False}
        common = {"chat": True, "max_new_tokens": options.tokens}
        for branches in ways.values():
            pair.target.branches = branches
            pair.generate("Hello.", **common)
        for kind, prompts in KINDS.items():
            repeats = []
            for _ in range(options.repeats):
                turns = {way: Turn() for way in ways}
                for prompt in prompts:
                    for way, branches in ways.items():
                        pair.target.branches = branches
                        turns[way].add(pair.generate(prompt, **common).stats)
                repeats.append(turns)
            with_them, without = repeats[0]["with"], repeats[0]["without"]  # counts do not change
            rows.append(
                {
                    "target": target_format,
                    "prompts": kind,
                    "repeats": options.repeats,
                    "speed_with_over_without": median(
                        turns["without"].seconds / turns["with"].seconds for turns in repeats
                    ),
                    "tokens": with_them.tokens,
                    "siblings_a_call": with_them.siblings / with_them.calls,
                    "taken_a_call": with_them.taken / with_them.calls,
                    "tokens_a_call": with_them.tokens / with_them.calls,
                    "tokens_a_call_without": without.tokens / without.calls,
                }
            )
            row = rows[-1]
            print(
                f"{target_format:6} {kind:10} ×{row['speed_with_over_without']:.3f}  "
                f"{row['tokens_a_call']:.2f} tokens a call instead of "
                f"{row['tokens_a_call_without']:.2f}, {row['taken_a_call']:.2f} of "
                f"{row['siblings_a_call']:.2f} siblings taken"
            )
    keep(options, record, rows=rows)


if __name__ == "__main__":
    main()
