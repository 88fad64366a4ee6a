"""Compares texts and speed of Qwen2.5-Coder 1.5B with and without its draft.

python examples/demo_qwen.py build/qwen
"""

from __future__ import annotations

import sys

import edgespec
from demo import compare

PROMPTS = [
    "Write a Python function that returns the prime factors of a number.",
    "Write a SQL query for the ten customers who spent most last year.",
    "Explain what a race condition is, with a short example.",
]

if __name__ == "__main__":
    compare(edgespec.load(sys.argv[1]), PROMPTS, max_new_tokens=128, chat=True)
