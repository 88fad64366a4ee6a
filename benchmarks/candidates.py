"""Greedy generation with candidates (alternatives to drafted tokens) and without, alternating.

    python benchmarks/candidates.py build/smollm2 --json FILE

Without: the target reports that it scores no candidates, so the draft proposes none. Whole
generations, by kind of prompt, with draft model and prompt lookup, the default of `edgespec
generate`. Needs kernels; see docs/decisions/0019-candidates.md.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import edgespec
from chat_lookup import KINDS, total
from record import begin, write_result


def per_call(results: list[edgespec.Generation]) -> dict[str, float]:
    """Candidates scored and committed per call of the target, over some texts."""
    stats = [result.stats for result in results]
    calls = sum(s.target_calls for s in stats)
    return {
        "candidates_per_call": sum(s.candidates for s in stats) / calls,
        "committed_per_call": sum(s.committed for s in stats) / calls,
    }


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
        for scores_candidates in ways.values():
            pair.target.scores_candidates = scores_candidates
            pair.generate("Hello.", **common)
        for kind, prompts in KINDS.items():
            ratios = []
            for _ in range(options.repeats):
                results: dict[str, list[edgespec.Generation]] = {way: [] for way in ways}
                for prompt in prompts:
                    for way, scores_candidates in ways.items():
                        pair.target.scores_candidates = scores_candidates
                        results[way].append(pair.generate(prompt, **common))
                totals = {way: total(found) for way, found in results.items()}
                speeds = [totals[way]["tokens_per_second"] for way in ("with", "without")]
                ratios.append(speeds[0] / speeds[1])
            rows.append(  # counts are the same in all repeats
                {
                    "target": target_format,
                    "prompts": kind,
                    "repeats": options.repeats,
                    "speed_with_over_without": median(ratios),
                    "tokens": totals["with"]["tokens"],
                    **per_call(results["with"]),
                    "tokens_per_call": totals["with"]["tokens_per_target_call"],
                    "tokens_per_call_without": totals["without"]["tokens_per_target_call"],
                }
            )
            row = rows[-1]
            print(
                f"{target_format:6} {kind:10} ×{row['speed_with_over_without']:.3f}  "
                f"{row['tokens_per_call']:.2f} tokens per call instead of "
                f"{row['tokens_per_call_without']:.2f}, {row['committed_per_call']:.2f} of "
                f"{row['candidates_per_call']:.2f} candidates committed"
            )
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
