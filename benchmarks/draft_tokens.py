"""What a draft gains that proposes fewer tokens: two pairs of one target that differ in this.

    python benchmarks/draft_tokens.py build/qwen-all build/qwen --prompts FILE ...

Prompts are answered by both pairs with the draft model alone and a fixed γ: accepted tokens and
tokens a call do not depend on the machine's load. Then the smallest times of many calls, taken in
turns: of a drafted token, and of the target's calls with one row and with γ + 1. Decoding over
plain follows from both (docs/explanation/speed-model.md); it is computed, not measured.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import edgespec
from edgespec.core.stats import Stats
from peers.prompts import first_of_kinds, of_file
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
CONTEXT = 200  # positions before the calls that are timed


def answered(pairs: Sequence[edgespec.Pair], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Counts of each pair for each kind; a text that differs between the pairs stops it."""
    counts: dict[str, list[list[Stats]]] = defaultdict(list)
    requests = (request for file in options.prompts for request in of_file(file))
    for request in first_of_kinds(requests, options.each):
        made = [
            pair.generate(
                request.prompt,
                chat=True,
                draft="model",
                gamma=options.gamma,
                max_new_tokens=min(request.max_new_tokens, options.limit),
            )
            for pair in pairs
        ]
        assert made[0].token_ids == made[1].token_ids, request.prompt
        counts[request.kind].append([one.stats for one in made])
        print(f"{request.kind}: {[round(s.stats.tokens_per_target_call, 2) for s in made]}")
    return [_row(kind, found) for kind, found in counts.items()]


def _row(kind: str, found: Sequence[Sequence[Stats]]) -> dict[str, Any]:
    by_pair = list(zip(*found, strict=True))
    return {
        "kind": kind,
        "prompts": len(found),
        "tokens": sum(s.tokens for s in by_pair[0]),
        "accepted": [sum(s.accepted for s in of) / sum(s.evaluated for s in of) for of in by_pair],
        "tokens_a_call": [
            sum(s.tokens for s in of) / sum(s.target_calls for s in of) for of in by_pair
        ],
    }


def smallest_times(pairs: Sequence[edgespec.Pair], gamma: int, repeats: int) -> dict[str, float]:
    """Seconds of a drafted token of each pair, with its probability as γ "auto" needs it, and of
    the first target's calls."""
    drafts = [pair.draft for pair in pairs]
    for model in (pairs[0].target, *drafts):
        model.top_tokens([model.prefill([100] * CONTEXT)])
    calls = {
        "one row": (pairs[0].target, [100], False),
        "verification": (pairs[0].target, [100] * (gamma + 1), False),
        "all tokens": (drafts[0], [100], True),
        "fewer tokens": (drafts[1], [100], True),
    }
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, (model, tokens, probabilities) in calls.items():
            length = model.length
            begun = time.perf_counter()
            model.top_tokens(tokens, probabilities=probabilities)
            found[name] = min(found[name], time.perf_counter() - begun)
            model.rewind(length)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs=2, help="with all tokens, and with fewer")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--limit", type=int, default=96, help="of new tokens")
    parser.add_argument("--gamma", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=100)
    options, record = begin(parser)
    pairs = [edgespec.load(folder, threads=options.threads) for folder in options.pairs]
    times = smallest_times(pairs, options.gamma, options.repeats)
    step = times["one row"]
    costs = [times[name] / step for name in ("all tokens", "fewer tokens")]
    verification = times["verification"] / step
    print(f"plain step {1000 * step:.1f} ms; v({options.gamma + 1}) {verification:.2f}")
    print("a drafted token, in plain steps:", [round(cost, 3) for cost in costs])
    rows = answered(pairs, options)
    for row in rows:
        row["decoding"] = [
            calls / (options.gamma * cost + verification)
            for calls, cost in zip(row["tokens_a_call"], costs, strict=True)
        ]
        print({name: _rounded(value) for name, value in row.items()})
    write_result(options, record, times=times, rows=rows)


def _rounded(value: Any) -> Any:
    return [round(number, 3) for number in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
