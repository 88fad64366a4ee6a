"""Checks that a pair speculates exactly on Qualcomm's NPU, or its emulation: `make test-npu`.

    python scripts/npu/check_pair.py FOLDER [--prompts N] [--tokens N] [--samples N] [--both]

Ends with an error unless, with the target or the draft or both on the NPU (with --both, only both),

1. no operator is left to the processor (a session with one is refused),
2. the target is row-invariant there,
3. greedy texts with the draft are those without,
4. with samples, the first two sampled tokens have the target's distribution, and
5. no call copies more than tokens, positions, logits and the keys and values of its rows.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import edgespec
from edgespec.artifact.manifest import Exported, Manifest, read_manifest
from edgespec.device.device import CPU, Device
from edgespec.pair.opening.invariance_cache import invariance_here
from edgespec.pair.opening.runtime import open_model

NPU = "qnn"
GAMMA = 4
PLACES = ((NPU, NPU), (NPU, CPU), (CPU, NPU))  # of target and draft
FALSE_ALARM = 1e-6
SENTENCES = (
    "The file could not be opened.",
    "GNOME development IDE, for C/C++ - data files",
    "Python bindings for the GNU scientific library",
    "This package contains the documentation.",
    "tool to convert images between several formats",
    "library for reading and writing audio files (development files)",
    "This package provides the shared libraries that other programs need to run.",
    "simple mail client for the command line",
    "fonts for mathematical texts",
    "The server did not answer in time.",
    "fast compression library",
    "utilities to manage disk partitions",
    "a game about building cities",
    "debugging symbols for the network library",
    "Install this package if you want to compile programs.",
    "small web server with few dependencies",
    "The connection was closed by the other side.",
    "plugins for the music player",
    "parser for configuration files",
    "translations of the user interface",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=len(SENTENCES))
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--both", action="store_true")
    given = parser.parse_args()
    manifest = read_manifest(given.folder)
    for variant in manifest.target.variants:
        check_invariance(given.folder, manifest, variant)
        for target, draft in PLACES[:1] if given.both else PLACES:
            check_texts(given.folder, variant, target, draft, given.prompts, given.tokens)
    if given.samples:
        check_distribution(given.folder, manifest.target, given.samples)


def check_invariance(folder: Path, manifest: Manifest, variant: str) -> None:
    began = time.perf_counter()
    found = invariance_here(folder, manifest, variant, Device(1, NPU))
    rows = f"calls of {found.min_rows} to {found.max_rows} rows"
    print(f"{folder} {variant}: {found.is_row_invariant}, {rows}, {_since(began)}", flush=True)
    check(found.is_row_invariant, "rows have other bits in other calls")


def check_texts(
    folder: Path, variant: str, target: str, draft: str, prompts: int, tokens: int
) -> None:
    """Texts with and without draft, and what a call copies."""
    began = time.perf_counter()
    pair = edgespec.load(
        folder, threads=1, target_format=variant, provider=target, draft_provider=draft
    )
    made = calls = 0
    for prompt in SENTENCES[:prompts]:
        options = {"max_new_tokens": tokens, "temperature": 0}
        plain = pair.generate(prompt, draft=False, **options)
        drafted = pair.generate(prompt, draft="model", gamma=GAMMA, **options)
        check(drafted.token_ids == plain.token_ids, f"{prompt!r}: with draft {drafted.text!r}")
        made += len(plain.token_ids)
        calls += drafted.stats.target_calls
    print(
        f"  target on {target}, draft on {draft}: {prompts} texts of {made} tokens are equal, "
        f"{made / calls:.2f} tokens per target call, {_since(began)}",
        flush=True,
    )
    if target == NPU:
        check_copies(folder, variant)


def check_copies(folder: Path, variant: str) -> None:
    """The bytes of one call of each width, beside what is necessary."""
    exported = read_manifest(folder).target
    static = exported.variants[variant].static
    assert static is not None, "a folder for NPUs"
    model = open_model(folder, exported, variant, device=Device(1, NPU))
    model.prefill([3, 4, 3])
    decoder = model._decoder
    for rows in static.rows:
        before = decoder.bytes_copied
        model.score([3] * rows)
        copied = decoder.bytes_copied - before
        new = sum(8 * shape.kv_heads * shape.head_size * rows for shape in exported.cache_shapes)
        logits = 4 * rows * exported.vocab_size
        rest = copied - new - logits
        print(
            f"  a call of {rows} rows: {new} bytes of new keys and values, {logits} of logits, "
            f"{rest} of tokens, masks and positions",
            flush=True,
        )
        check(0 < rest <= 64 * static.capacity * rows * 4 + 64 * 1024, "a call copies the cache")


def check_distribution(folder: Path, exported: Exported, samples: int) -> None:
    """n · KL(empirical, exact) of the first two tokens is below what chance exceeds once in a
    million times (Agrawal 2020)."""
    began = time.perf_counter()
    variant = next(iter(exported.variants))
    prompt, vocabulary = [3, 4, 1, 3], exported.vocab_size
    model = open_model(folder, exported, variant, device=Device(1, NPU))

    def after(text: list[int]) -> np.ndarray:
        pending = model.prefill(prompt)
        for token in text:
            model.score([pending])
            pending = token
        logits = model.score([pending])[0].astype(np.float64)
        p = np.exp(logits - logits.max())
        return p / p.sum()

    exact = np.array([p * after([token]) for token, p in enumerate(after([]))])
    pair = edgespec.load(folder, threads=1, provider=NPU, draft_provider=NPU)
    counts, accepted = np.zeros((vocabulary, vocabulary)), 0
    for seed in range(samples):
        result = pair.generate(
            prompt, max_new_tokens=3, ignore_eos=True, seed=seed, temperature=1.0, gamma=1
        )
        counts[tuple(result.token_ids[:2])] += 1
        accepted += result.stats.accepted
    seen = counts > 0
    found = float((counts[seen] * np.log(counts[seen] / samples / exact[seen])).sum())
    limit = threshold(exact.size)
    print(
        f"  {samples} samples, {accepted} drafted tokens accepted: n · KL {found:.1f} (at most "
        f"{limit:.1f}), {_since(began)}",
        flush=True,
    )
    check(found <= limit and accepted > 0, "sampled tokens have another distribution")


def threshold(outcomes: int) -> float:
    """The n · KL that a correct sampler exceeds with probability at most `FALSE_ALARM`."""
    free = outcomes - 1
    low, high = float(free), 1e6
    for _ in range(100):
        middle = (low + high) / 2
        tail = -middle + free * (1 + math.log(middle / free))
        low, high = (middle, high) if tail > math.log(FALSE_ALARM) else (low, middle)
    return high


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(f"FAILED: {otherwise}")


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.0f} s"


if __name__ == "__main__":
    main()
