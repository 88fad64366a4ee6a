"""Records what the Python package decides on random distributions, for decisions.test.ts.

    python runtimes/js/tests/record_decisions.py > runtimes/js/tests/decisions.json

Everything follows from the seeds: each row of logits is made of one `Seeded` number, so the record
holds seeds, options and results only. Logits are multiples of 1/8: every language reads them alike.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from typing import Any

import numpy as np

from edgespec.core.distribution import Distribution
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Proposal
from edgespec.core.position_noise import exponential, mixed, noise_key
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import RULES

COUNT = 12_000
VOCABULARY = 40
GAMMA = 3
PROMPT_TOKENS = 5  # where the rule is the coupled one
OPTIONS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 5},
    {"temperature": 0.9, "top_p": 0.8},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 1.1, "top_n_sigma": 1.0},
    {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"temperature": 0.9, "top_n_sigma": 2.0, "top_k": 9, "xtc_probability": 1.0},
    {"temperature": 0.0},
]


def in_javascript(name: str) -> str:
    """An option's name there."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Numbers(Seeded):
    """Random numbers that the tests use for more than draws."""

    def logits(self) -> np.ndarray:
        """Float32 [VOCABULARY], 0 to 8 in steps of 1/8: 6 bits of a hash each."""
        key = int(self._uniform() * 2**32)
        return (mixed(range(VOCABULARY), key, key) >> 26).astype(np.float32) / 8


def near(logits: np.ndarray, numbers: Numbers) -> np.ndarray:
    """Logits of a target that a draft often agrees with: a third of them are others."""
    return np.where(np.arange(VOCABULARY) % 3 == 0, numbers.logits(), logits).astype(np.float32)


def decision(seed: int) -> list[int]:
    """Drafted tokens, the number of accepted ones, and the token after them."""
    numbers = Numbers(seed)
    process = SamplingProcessor(Sampling(**OPTIONS[seed % len(OPTIONS)]))
    name = ("token", "block", "coupled")[seed // len(OPTIONS) % 3]
    draws = (Coupled(seed, PROMPT_TOKENS) if name == "coupled" else Seeded(seed)).at(7)
    q: list[Distribution] = []
    p: list[Distribution] = []
    tokens: list[int] = []
    for drafted in range(GAMMA):
        logits = numbers.logits()
        q.append(process(logits))
        p.append(process(near(logits, numbers)))
        tokens.append(draws.categorical(q[-1], drafted))
    p.append(process(numbers.logits()))
    result = RULES[name](Proposal(tokens, q), p, draws)
    return [*tokens, result.accepted, draws.categorical(result.next, result.accepted)]


def noise(seed: int, position: int, token: int) -> list[float]:
    """What the noise depends on, its 52 bits, and E."""
    a, b, c, d = noise_key(seed, position)
    bits = int(mixed([token], a, b)[0]) << 20 | int(mixed([token], c, d)[0]) >> 12
    return [seed, position, token, bits, exponential(bits)]


def ranked(seed: int) -> list[list[float]]:
    """Tokens that distributions like a random one choose, each with its guessed probability."""
    p = SamplingProcessor(Sampling(temperature=1.0))(Numbers(seed).logits())
    return [list(guess) for guess in Coupled(seed, 0).ranked(p, 0)]


def recorded() -> dict[str, Any]:
    """The record: the first numbers and the noise of some seeds, and all decisions."""
    seeds = [0, 1, 7, 12345, 2**53 - 1]
    return {
        "vocabulary": VOCABULARY,
        "gamma": GAMMA,
        "sampling": {in_javascript(field.name): field.default for field in fields(Sampling)},
        "options": [
            {in_javascript(name): value for name, value in options.items()} for options in OPTIONS
        ],
        "uniforms": [
            [seed, [Seeded(seed).at(3)._uniform(), Numbers(seed)._uniform()]] for seed in seeds
        ],
        "prompt_tokens": PROMPT_TOKENS,
        "noise": [
            noise(seed, position, token)
            for seed in seeds
            for position in (0, 17, 8191)
            for token in (0, 1, 49151, 151000)
        ],
        "ranked": [[seed, ranked(seed)] for seed in range(20)],
        "decisions": [decision(seed) for seed in range(COUNT)],
    }


if __name__ == "__main__":
    json.dump(recorded(), sys.stdout, separators=(",", ":"))
    print()
