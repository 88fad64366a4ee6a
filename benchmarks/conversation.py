"""How long each turn of a conversation waits for its first token, with earlier turns in the cache.

    python benchmarks/conversation.py build/smollm2

The same conversation, with its turns kept in the cache and with a cache that is emptied in front
of each turn, in turns. The texts must be the same. Greedy, γ auto.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median

import edgespec
from record import begin

QUESTIONS = (
    "Give me a recipe for pancakes.",
    "Make it vegan.",
    "Which tools do I need?",
    "Now list only the ingredients.",
    "Write a short story about somebody who makes them for the first time.",
    "Tell it again from the pancake's point of view.",
)
TOKENS = 160
WAYS = {"kept": True, "anew": False}


def talk(pair: edgespec.Pair, keeps: bool) -> list[edgespec.Generation]:
    """The answers."""
    messages, answers = [], []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        if not keeps:
            pair.target.rewind(0)
            if pair.draft:
                pair.draft.rewind(0)
        answers.append(pair.generate(messages, max_new_tokens=TOKENS))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--target-format")
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    talks: dict[str, list[list[edgespec.Generation]]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way, keeps in WAYS.items():
            pair.generate("something else", max_new_tokens=2)
            talks[way].append(talk(pair, keeps))
    every = [answers for found in talks.values() for answers in found]
    texts = [[answer.token_ids for answer in answers] for answers in every]
    rows = []
    for turn, answer in enumerate(every[0]):
        row: dict[str, float] = {"turn": turn + 1, "prompt_tokens": answer.prompt_tokens}
        for way, found in talks.items():
            waits = [answers[turn].stats.first_token_seconds for answers in found]
            row[f"first_token_ms_{way}"] = 1e3 * median(waits)
        rows.append(row)
        print("  ".join(f"{name} {value:.0f}" for name, value in row.items()))
    same = all(text == texts[0] for text in texts)
    print(f"texts the same in {len(texts)} conversations: {same}")
    if options.json:
        data = {
            "environment": record,
            "target": options.target_format or next(iter(pair.manifest.target.variants)),
            "repeats": options.repeats,
            "texts_the_same": same,
            "rows": rows,
        }
        options.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
