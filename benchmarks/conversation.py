"""Time to the first token of each turn of a conversation, with earlier turns in the cache.

    python benchmarks/conversation.py build/smollm2

The same conversation in two ways that alternate: earlier turns are reused from the cache, or the
caches are emptied before each turn. The texts must be equal. For comparison, the same tokens as one
text, which takes long calls only. Greedy, γ auto.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import edgespec
from record import begin, write_result

QUESTIONS = (
    "Give me a recipe for pancakes.",
    "Make it vegan.",
    "Which tools do I need?",
    "Now list only the ingredients.",
    "Write a short story about somebody who makes them for the first time.",
    "Tell it again from the pancake's point of view.",
)
TOKENS = 160


def converse(pair: edgespec.Pair, reuse: bool) -> list[edgespec.Generation]:
    """The answers to all questions."""
    messages, answers = [], []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        if not reuse:
            empty_caches(pair)
        answers.append(pair.generate(messages, max_new_tokens=TOKENS))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


def as_one_text(
    pair: edgespec.Pair, answers: list[edgespec.Generation]
) -> list[edgespec.Generation]:
    """The first tokens of the same answers, each prompt as one text."""
    messages, started = [], []
    for question, answer in zip(QUESTIONS, answers, strict=True):
        messages.append({"role": "user", "content": question})
        started.append(pair.generate(pair.encode(messages), max_new_tokens=2))
        messages.append({"role": "assistant", "content": answer.text})
    return started


def empty_caches(pair: edgespec.Pair) -> None:
    for model in (pair.target, pair.draft):
        if model is not None:
            model.rewind(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--target-format")
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    found: dict[str, list[list[edgespec.Generation]]] = {
        "reused": [],
        "recomputed": [],
        "one text": [],
    }
    for _ in range(options.repeats):
        empty_caches(pair)
        found["reused"].append(converse(pair, reuse=True))
        found["recomputed"].append(converse(pair, reuse=False))
        found["one text"].append(as_one_text(pair, found["recomputed"][-1]))
    conversations = [*found["reused"], *found["recomputed"]]
    texts = [[answer.token_ids for answer in answers] for answers in conversations]
    rows = []
    for turn, answer in enumerate(conversations[0]):
        row: dict[str, float] = {"turn": turn + 1, "prompt_tokens": answer.prompt_tokens}
        for way, runs in found.items():
            waits = [answers[turn].stats.first_token_seconds for answers in runs]
            row[f"{way}, ms"] = 1e3 * median(waits)
        rows.append(row)
        print("  ".join(f"{name} {value:.0f}" for name, value in row.items()))
    equal = all(text == texts[0] for text in texts)
    print(f"texts equal in {len(texts)} conversations: {equal}")
    about = {"target": pair.formats[0], "repeats": options.repeats}
    write_result(options, record, **about, texts_equal=equal, rows=rows)


if __name__ == "__main__":
    main()
