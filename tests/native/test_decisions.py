"""Claim: with the same numbers, libedgespec draws, accepts and corrects as Python does.

The record is JavaScript's: 12 000 rounds of three drafted tokens, with every sampling option and
every rule. Everything follows from the seeds, which the library draws again.
"""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import numpy as np
import pytest

from edgespec.core.distribution_options import LogitEdits, Sampling
from edgespec.core.logit_edits import edit_of
from edgespec.core.position_noise import noise_key
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.vocab_ops import KERNELS
from native_library import options_of

RECORD = Path(__file__).parents[2] / "runtimes" / "js" / "tests" / "decisions.json"
RULES = ("token", "block", "coupled")


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORD.read_text(encoding="utf-8"))


def answering(hook):
    """A hook that answers None, or why it failed."""
    hook.restype = ctypes.c_char_p
    return hook


def python_name(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def test_every_decision_is_pythons(hooks, recorded):
    decide = answering(hooks.edgespec_hook_decision)
    size = recorded["gamma"] + 2
    found = (ctypes.c_int64 * size)()
    kinds = [
        options_of(
            hooks, {**{python_name(name): value for name, value in options.items()}, "rule": rule}
        )
        for rule in RULES
        for options in recorded["options"]
    ]
    for seed, expected in enumerate(recorded["decisions"]):
        kind = kinds[seed % len(kinds)]
        failed = decide(
            ctypes.c_uint64(seed),
            ctypes.byref(kind),
            ctypes.c_int64(recorded["vocabulary"]),
            ctypes.c_int64(recorded["gamma"]),
            ctypes.c_int64(recorded["prompt_tokens"]),
            found,
        )
        assert failed is None
        assert list(found) == expected, f"seed {seed}"
    assert len(recorded["decisions"]) >= 10_000


def test_seeds_draw_pythons_numbers(hooks, recorded):
    hooks.edgespec_hook_uniform.restype = ctypes.c_double

    def uniform(seed, emitted):
        return hooks.edgespec_hook_uniform(ctypes.c_uint64(seed), ctypes.c_int64(emitted))

    for seed, (at_three, first) in recorded["uniforms"]:
        assert (uniform(seed, 3), uniform(seed, 0)) == (at_three, first)
    largest = 2**64 - 1
    assert uniform(largest, 10**12) == Seeded(largest).at(10**12)._uniform()


def test_the_noise_of_positions_is_pythons(hooks):
    key = (ctypes.c_uint32 * 4)()
    for seed, position in [(0, 0), (7, 8191), (2**53 - 1, 17), (2**64 - 1, 2**40)]:
        hooks.edgespec_hook_noise_key(ctypes.c_uint64(seed), ctypes.c_int64(position), key)
        assert tuple(key) == noise_key(seed, position)


@pytest.mark.skipif(KERNELS is None, reason="numpy rounds otherwise than the kernels")
@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 1.0},
        {"temperature": 0.3, "top_k": 50},
        {"temperature": 1.7, "top_p": 0.9},
        {"temperature": 0.8, "min_p": 0.02},
        {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
        {"temperature": 1.2, "top_n_sigma": 1.5},
        {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.01},
        {"temperature": 1.0, "top_k": 30, "xtc_probability": 1.0, "xtc_threshold": 0.02},
        {"temperature": 0.0},
    ],
)
def test_distributions_have_pythons_bits(hooks, given):
    process = answering(hooks.edgespec_hook_process)
    rng = np.random.default_rng(5)
    for size in (1, 17, 4099):
        logits = rng.normal(0, 3, size).astype(np.float32)
        logits[rng.random(size) < 0.1] = -np.inf
        logits[0] = 9
        tokens, p, count = np.zeros(size, np.int64), np.zeros(size, np.float32), ctypes.c_int64()
        where = [array.ctypes.data_as(ctypes.c_void_p) for array in (logits, tokens, p)]
        width, found = ctypes.c_int64(size), ctypes.byref(count)
        options = ctypes.byref(options_of(hooks, given))
        assert process(options, where[0], width, *where[1:], found) is None
        expected = SamplingProcessor(Sampling(**given))(logits)
        assert tokens[: count.value].tolist() == expected.tokens.tolist()
        assert p[: count.value].tolist() == np.float32(expected.probabilities).tolist()


@pytest.mark.parametrize(
    "given",
    [
        {"repetition_penalty": 1.3},
        {"presence_penalty": 0.7, "frequency_penalty": -0.4},
        {"logit_bias": {3: -100.0, 11: 2.5}},
        {"min_tokens": 6},
        {
            "repetition_penalty": 0.8,
            "frequency_penalty": 1.1,
            "logit_bias": {5: 1},
            "min_tokens": 9,
        },
    ],
)
def test_edited_logits_have_pythons_bits(hooks, given):
    edit = answering(hooks.edgespec_hook_edit)
    rng = np.random.default_rng(6)
    prompt, last = [4, 4, 9], [2, 7]
    for generated in ([], [5], [5, 9, 5, 30, 5, 0, 1]):
        logits = rng.normal(0, 3, 31).astype(np.float32)
        expected = edit_of(LogitEdits(**given), prompt, last, 31)(logits, generated)
        options = options_of(hooks, {**given, "stop_tokens": last})
        tokens = [(ctypes.c_int64 * len(ids))(*ids) for ids in (prompt, generated)]
        where = logits.ctypes.data_as(ctypes.c_void_p)
        sizes = [ctypes.c_size_t(len(ids)) for ids in tokens]
        both = [part for pair in zip(tokens, sizes, strict=True) for part in pair]
        assert edit(ctypes.byref(options), *both, where, ctypes.c_int64(31)) is None
        assert logits.tolist() == expected.tolist()
