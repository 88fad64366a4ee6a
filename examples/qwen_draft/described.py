"""Requests for a function, from the description of one that is there."""

from __future__ import annotations

import random

from functions import Function
from sections import read_sections

DESCRIBED = read_sections("described")


def described(one: Function, language: str, rng: random.Random) -> str:
    """A request for this function, in a language that need not be its own."""
    pattern = rng.choice(DESCRIBED["any"] + DESCRIBED.get(language, []))
    return pattern.replace("\\n", "\n").format(**{**vars(one), "language": language})
