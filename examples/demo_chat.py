"""Compares texts and speed of SmolLM2-135M-Instruct with and without its distilled draft.

python examples/demo_chat.py build/smollm2
"""

from __future__ import annotations

import sys

import edgespec
from demo import compare

PROMPTS = [
    "Correct the spelling and repeat the whole text: The libary contains functions to read and "
    "write compressed files. The libary contains a tool to list the contents of compressed "
    "files. The documentation of the libary is in a package of its own.",
    "Give me three facts about the Moon.",
    "How do I make a cup of tea?",
    "Write a Python function that adds up the numbers in a list.",
]

if __name__ == "__main__":
    compare(edgespec.load(sys.argv[1]), PROMPTS, chat=True, max_new_tokens=96)
