"""Generates the same texts with and without the draft, and says whether it made a difference.

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


def compare(pair: edgespec.Pair, prompts: list[str], **options: object) -> None:
    """Prints both texts of each prompt, that they are equal, and the ratio of their speeds."""
    pair.generate(prompts[0], **options)  # the first calls also set things up
    seconds = {"plain": 0.0, "draft": 0.0}
    tokens = calls = 0
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, **options)
        drafted = pair.generate(prompt, draft=True, **options)
        same = "equal" if drafted.token_ids == plain.token_ids else "DIFFERENT"
        print(f"prompt        {prompt}\nwithout draft {plain.text}\nwith draft    {drafted.text}")
        print(f"{same}; {drafted.stats.tokens_per_target_call:.2f} tokens a target call\n")
        if drafted.token_ids != plain.token_ids:
            sys.exit("the texts differ: this must never happen, please report it")
        seconds["plain"] += plain.stats.seconds
        seconds["draft"] += drafted.stats.seconds
        tokens += drafted.stats.tokens
        calls += drafted.stats.target_calls
    print(f"all {len(prompts)} texts are equal, token by token")
    print(
        f"{tokens} tokens: {tokens / seconds['plain']:.0f} tokens/s without draft, "
        f"{tokens / seconds['draft']:.0f} with it ({tokens / calls:.2f} tokens a target call): "
        f"ratio {seconds['plain'] / seconds['draft']:.2f}"
    )


if __name__ == "__main__":
    compare(edgespec.load(sys.argv[1]), PROMPTS)
