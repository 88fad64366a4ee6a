"""SmolLM2-135M with its draft model, with prompt lookup and with both; time of the loop itself.

    python benchmarks/chat_lookup.py build/smollm2 --json FILE

For each kind of prompt: tokens/s with a draft over tokens/s without, greedy and sampled, over whole
generations. `loop_share` is the time outside the calls of the two models, with a vocabulary of
49 152 tokens. One kind are the first of the handwritten prompts that evaluate the shipped draft.
Rows where speculation is slower are included.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import edgespec
from edgespec.artifact.text_file import read_lines
from edgespec.pair.opening.sample_prompts import CHAT
from record import begin, write_result

HELD_OUT = Path(__file__).parents[1] / "examples" / "smollm2_draft" / "held_out.txt"
KINDS = {**CHAT, "held-out": read_lines(HELD_OUT)[:8]}
SAMPLED = {"temperature": 0.8, "top_p": 0.95, "seed": 1}


def total(results: list[edgespec.Generation]) -> dict[str, float]:
    stats = [result.stats for result in results]
    seconds = sum(s.seconds for s in stats)
    inside = sum(s.target_seconds + s.draft_seconds for s in stats)
    tokens = sum(s.tokens for s in stats)
    return {
        "tokens_per_second": tokens / seconds,
        "loop_share": 1 - inside / seconds,
        "tokens_per_target_call": tokens / sum(s.target_calls for s in stats),
        "tokens": tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--tokens", type=int, default=96)
    options, record = begin(parser)
    rows: list[dict[str, Any]] = []
    formats = edgespec.load(options.pair).manifest.target.variants
    for target_format in formats:
        pair = edgespec.load(options.pair, threads=options.threads, target_format=target_format)
        ways: dict[str, dict[str, Any]] = {
            "plain": {"draft": False},
            "lookup, γ auto": {"draft": "lookup"},
            "lookup, γ 4": {"draft": "lookup", "gamma": 4},
        }
        if pair.draft is not None:
            ways["model, γ auto"] = {"draft": "model"}
            ways["model, γ 3"] = {"draft": "model", "gamma": 3}
            ways["both, γ auto"] = {"draft": "both"}
        common = {"chat": True, "max_new_tokens": options.tokens}
        pair.generate("Hello.", **common)
        for category, prompts in KINDS.items():
            for sampling, parameters in (("greedy", {}), ("sampled", SAMPLED)):
                results: dict[str, list[edgespec.Generation]] = {name: [] for name in ways}
                for prompt in prompts:  # the ways alternate
                    for name, way in ways.items():
                        results[name].append(pair.generate(prompt, **common, **parameters, **way))
                totals = {name: total(found) for name, found in results.items()}
                for name, row in totals.items():
                    ratio = row["tokens_per_second"] / totals["plain"]["tokens_per_second"]
                    rows.append(
                        {
                            "target": target_format,
                            "prompts": category,
                            "sampling": sampling,
                            "way": name,
                            "ratio": ratio,
                            **row,
                        }
                    )
                    print(
                        f"{target_format:6} {category:10} {sampling:8} {name:15} "
                        f"{row['tokens_per_second']:6.1f} tokens/s  ×{ratio:.2f}  "
                        f"{row['tokens_per_target_call']:.2f} tokens per call  "
                        f"loop {row['loop_share']:.1%}"
                    )
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
