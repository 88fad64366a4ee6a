"""What prompts share with the benchmarks: python overlap.py PROMPTS.jsonl

Fails if a prompt is one of benchmarks/prompts or has 60 characters in a row in common with one;
spaces and capitals do not count.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "prompts"
LENGTH = 60


class Benchmarks:
    """The prompts that judge a draft."""

    def __init__(self) -> None:
        prompts = [
            squeezed(one["prompt"])
            for file in sorted(BENCHMARKS.glob("*.json"))
            for one in json.loads(file.read_text(encoding="utf-8"))
        ]
        self._passages = {passage for prompt in prompts for passage in passages(prompt)}

    def shared(self, prompt: str) -> str:
        """The first passage of a prompt that a benchmark has too, or nothing."""
        return next((one for one in passages(squeezed(prompt)) if one in self._passages), "")


def squeezed(text: str) -> str:
    """In small letters, with one space between words."""
    return " ".join(text.split()).lower()


def passages(text: str) -> list[str]:
    """Every one of LENGTH characters; the whole text if it is shorter."""
    return [text[at : at + LENGTH] for at in range(max(1, len(text) - LENGTH + 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", type=Path)
    arguments = parser.parse_args()
    benchmarks = Benchmarks()
    prompts = list(map(json.loads, arguments.prompts.read_text(encoding="utf-8").splitlines()))
    found = [passage for prompt in prompts if (passage := benchmarks.shared(prompt))]
    if found:
        raise SystemExit(
            f"error: {len(found)} of {len(prompts)} prompts of {arguments.prompts} are in"
            f" {BENCHMARKS}; the first has {found[0]!r}: leave them out"
        )
    print(f"none of {len(prompts)} prompts shares {LENGTH} characters with {BENCHMARKS}")


if __name__ == "__main__":
    main()
