"""Compares texts and speed of Gemma 3 270M with and without prompt lookup.

It is a base model: it continues texts and does not answer questions.

python examples/demo_gemma.py build/gemma
"""

from __future__ import annotations

import sys

import edgespec
from demo import compare

PROMPTS = [
    "The three states of matter are",
    "A recipe for pancakes:\n\nIngredients:\n",
    "def area_of_circle(radius):\n",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday,",
]

if __name__ == "__main__":
    compare(edgespec.load(sys.argv[1]), PROMPTS, max_new_tokens=96)
