"""Generates texts with and without the draft, checks that they are equal, and compares speed.

python examples/demo.py build/en-de
"""

from __future__ import annotations

import sys

import edgespec

PROMPTS = [
    "GNOME development IDE, for C/C++ - data files",
    "Python bindings for the GNU scientific library",
    "This package contains the documentation.",
    "tool to convert images between several formats",
    "library for reading and writing audio files (development files)",
]
PASSES = 3


def compare(pair: edgespec.Pair, prompts: list[str], **options: object) -> None:
    """Prints both texts of each prompt and the ratio of their speeds; exits if two texts differ."""
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, **options)
        drafted = pair.generate(prompt, draft=True, **options)
        print(f"prompt        {prompt}\nwithout draft {plain.text}\nwith draft    {drafted.text}")
        if drafted.token_ids != plain.token_ids:
            sys.exit("the texts differ: this must never happen, please report it")
        print(f"equal; {drafted.stats.tokens_per_target_call:.2f} tokens per target call\n")
    print(f"all {len(prompts)} texts are equal, token by token")
    show_speed(pair, prompts, **options)


def show_speed(pair: edgespec.Pair, prompts: list[str], **options: object) -> None:
    """Generates all texts again, with and without draft alternating, and prints the speeds."""
    seconds = {True: 0.0, False: 0.0}
    tokens = calls = 0
    for prompt in prompts * PASSES:
        for draft in (False, True):
            stats = pair.generate(prompt, draft=draft, **options).stats
            seconds[draft] += stats.seconds
        tokens += stats.tokens
        calls += stats.target_calls
    print(
        f"{tokens} tokens: {tokens / seconds[False]:.0f} tokens/s without draft, "
        f"{tokens / seconds[True]:.0f} with it ({tokens / calls:.2f} tokens per target call): "
        f"ratio {seconds[False] / seconds[True]:.2f}"
    )


if __name__ == "__main__":
    compare(edgespec.load(sys.argv[1]), PROMPTS)
