"""How long each turn of a conversation waits for its first token, with earlier turns in the cache.

    python benchmarks/conversation.py build/smollm2

The same conversation in two ways that take turns: with its turns kept in the cache, and with caches
that are emptied in front of each turn. The texts must be the same. Beside them, how long the same
tokens take that are given as one text, in long calls only. Greedy, γ auto.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import edgespec
from record import begin, keep

QUESTIONS = (
    "Give me a recipe for pancakes.",
    "Make it vegan.",
    "Which tools do I need?",
    "Now list only the ingredients.",
    "Write a short story about somebody who makes them for the first time.",
    "Tell it again from the pancake's point of view.",
)
TOKENS = 160


def talk(pair: edgespec.Pair, keeps: bool) -> list[edgespec.Generation]:
    """The answers."""
    messages, answers = [], []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        if not keeps:
            forget(pair)
        answers.append(pair.generate(messages, max_new_tokens=TOKENS))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


def as_one_text(
    pair: edgespec.Pair, answers: list[edgespec.Generation]
) -> list[edgespec.Generation]:
    """The beginnings of the same answers."""
    messages, begun = [], []
    for question, answer in zip(QUESTIONS, answers, strict=True):
        messages.append({"role": "user", "content": question})
        begun.append(pair.generate(pair.encode(messages), max_new_tokens=2))
        messages.append({"role": "assistant", "content": answer.text})
    return begun


def forget(pair: edgespec.Pair) -> None:
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
    found: dict[str, list[list[edgespec.Generation]]] = {"kept": [], "anew": [], "one text": []}
    for _ in range(options.repeats):
        forget(pair)
        found["kept"].append(talk(pair, keeps=True))
        found["anew"].append(talk(pair, keeps=False))
        found["one text"].append(as_one_text(pair, found["anew"][-1]))
    talks = [*found["kept"], *found["anew"]]
    texts = [[answer.token_ids for answer in answers] for answers in talks]
    rows = []
    for turn, answer in enumerate(talks[0]):
        row: dict[str, float] = {"turn": turn + 1, "prompt_tokens": answer.prompt_tokens}
        for way, conversations in found.items():
            waits = [answers[turn].stats.first_token_seconds for answers in conversations]
            row[f"{way}, ms"] = 1e3 * median(waits)
        rows.append(row)
        print("  ".join(f"{name} {value:.0f}" for name, value in row.items()))
    same = all(text == texts[0] for text in texts)
    print(f"texts the same in {len(texts)} conversations: {same}")
    about = {"target": pair.formats[0], "repeats": options.repeats}
    keep(options, record, **about, texts_the_same=same, rows=rows)


if __name__ == "__main__":
    main()
