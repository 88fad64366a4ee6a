"""Checks that a pair exported for a device speculates exactly on a provider: `make test-providers`.

    scripts/providers/run_webgpu ENVIRONMENT scripts/providers/check_pair.py PROVIDER FOLDER …

Ends with an error unless, for each folder,

1. logits are those of the processor but for rounding, and the target is row-invariant there,
2. greedy texts with a draft are those without, with target and draft on the provider or the
   processor in all combinations,
3. with --law, sampled texts with a draft have the target's distribution,
4. no call copies keys and values between the host and the device, neither where they are bound nor
   inside the graph.

It prints which operators are left to the processor, and what a call copies.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import time
from collections import Counter
from pathlib import Path

import edgespec
from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.device.device import CPU, Device
from edgespec.pair.opening.invariance_cache import invariance_here
from edgespec.pair.opening.sample_prompts import prompts_for
from edgespec.pair.pair import Pair
from edgespec_runtimes.ort.providers import CPU_TITLE
from edgespec_runtimes.ort.providing.sample_call import sample_inputs
from edgespec_runtimes.ort.session import open_session

GAMMA = 3
POSITIONS = 4096  # of the cache in the call whose copies are counted
SAMPLES = 150
CHI_SQUARED = 37.3  # of 9 cells: exceeded once in 100 000 times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("provider")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--law", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="  %(message)s", stream=sys.stdout)
    for folder in options.folders:
        check_pair(folder, options.provider, options)
    print("all held", flush=True)


def check_pair(folder: Path, provider: str, options: argparse.Namespace) -> None:
    manifest = read_manifest(folder)
    variant = next(iter(manifest.target.variants))
    print(f"{folder} {variant} on {provider}", flush=True)
    began = time.perf_counter()
    found = invariance_here(folder, manifest, variant, Device(1, provider), options.capacity)
    seconds = time.perf_counter() - began
    print(f"  row-invariant from {found.min_rows}: {found.is_row_invariant}, {seconds:.0f} s")
    check(found.is_row_invariant, "the target should be row-invariant")
    prompts = prompts_of(manifest, options.prompts)
    for target, draft in ((provider, provider), (provider, CPU), (CPU, provider)):
        pair = edgespec.load(
            folder,
            threads=1,
            capacity=options.capacity,
            provider=target,
            draft_provider=draft,
        )
        most = len(prompts) if target == draft else min(2, len(prompts))
        check_texts(pair, prompts[:most], options.tokens, f"target {target}, draft {draft}")
        if target == draft:
            check_copies(folder, manifest, provider, pair)
            if options.law:
                check_law(pair, prompts[0])


def prompts_of(manifest: Manifest, count: int) -> list[str]:
    """So many prompts: the built-in ones, and their parts."""
    whole = [text for texts in prompts_for(manifest).values() for text in texts]
    parts = [" ".join(text.split()[start : start + 6]) for text in whole for start in (0, 2, 4, 6)]
    return [text for text in (*whole, *parts) if 0 < len(text) < 60][:count]


def check_texts(pair: Pair, prompts: list[str], tokens: int, what: str) -> None:
    """Greedy texts with a draft are those without; prints counts."""
    began = time.perf_counter()
    drafted = accepted = calls = 0
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, max_new_tokens=tokens)
        text = pair.generate(prompt, draft="model", gamma=GAMMA, max_new_tokens=tokens)
        check(text.token_ids == plain.token_ids, f"{prompt!r}: {text.text!r}, not {plain.text!r}")
        drafted, accepted = drafted + text.stats.drafted, accepted + text.stats.accepted
        calls += text.stats.target_calls
    check(drafted > 0, "a draft should be used")
    print(
        f"  {what}: {len(prompts)} texts equal, {accepted} of {drafted} drafted tokens accepted, "
        f"{calls} calls of the target, {time.perf_counter() - began:.0f} s",
        flush=True,
    )


def check_copies(folder: Path, manifest: Manifest, provider: str, pair: Pair) -> None:
    """What a call of γ + 1 positions copies: tokens, positions and logits, no keys and values."""
    target, rows = pair.target, GAMMA + 1
    if not manifest.target.is_encoder_decoder:
        target.prefill([5, 6, 7])
    before = target.copied_bytes
    target.score([5] * rows)
    copied = target.copied_bytes - before
    states = 4 * manifest.target.features * rows if not manifest.target.is_encoder_decoder else 0
    expected = 8 * rows + 4 * rows + 8 + 4 * rows * manifest.target.vocab_size + states
    check(copied == expected, f"a call copies {copied} bytes, and {expected} have to be")
    variant = next(iter(manifest.target.variants.values()))
    session = open_session(folder / variant.graphs["decoder"], Device(1, provider), profiled=True)
    session.run(None, sample_inputs(session, POSITIONS))
    profile = Path(session.end_profiling())
    events = [event["args"] for event in json.loads(profile.read_text()) if "args" in event]
    profile.unlink()
    ran = {event["node_index"]: event for event in events if "provider" in event}.values()
    copies = [event for event in ran if event["op_name"].startswith("Memcpy")]
    inside = sum(int(event["output_size"]) for event in copies)
    left = Counter(
        event["op_name"] for event in ran if event["provider"] == CPU_TITLE and event not in copies
    )
    row = 4 * POSITIONS * manifest.target.head_size  # of one head
    check(inside < row, f"{inside} bytes are copied inside the graph")
    print(
        f"  a call of {rows} positions copies {copied} bytes, none of keys and values, and "
        f"{inside} inside the graph; {len(ran) - len(copies)} operators, of which the processor "
        f"runs {dict(left)}",
        flush=True,
    )


def check_law(pair: Pair, prompt: str) -> None:
    """Two sampled tokens with a draft have the target's distribution: a chi-squared test."""
    began, options = time.perf_counter(), {"temperature": 1.0, "top_k": 3, "max_new_tokens": 2}
    ids = [
        tuple(pair.generate(prompt, draft="model", gamma=2, seed=seed, **options).token_ids)
        for seed in range(SAMPLES)
    ]
    first = distribution_after(pair, prompt, [])
    second = {token: distribution_after(pair, prompt, [token]) for token in first}
    cells = {(one, two): first[one] * q for one, qs in second.items() for two, q in qs.items()}
    found = Counter(ids)
    check(set(found) <= set(cells), "a text should be possible")
    statistic = sum((found[cell] - SAMPLES * p) ** 2 / (SAMPLES * p) for cell, p in cells.items())
    check(statistic < CHI_SQUARED, f"the distribution differs: chi-squared is {statistic:.1f}")
    print(
        f"  {SAMPLES} sampled texts have the target's distribution: chi-squared {statistic:.1f} of "
        f"at most {CHI_SQUARED}, {time.perf_counter() - began:.0f} s",
        flush=True,
    )


def distribution_after(pair: Pair, prompt: str, tokens: list[int]) -> dict[int, float]:
    """The three most probable tokens after a prompt and some tokens, with their probabilities."""
    target = pair.target
    pending = target.prefill(pair.encode(prompt))
    logits = target.score([pending, *tokens])[-1].astype(float)
    best = logits.argsort()[::-1][:3]
    weights = [math.exp(logits[token] - logits[best[0]]) for token in best]
    return {int(token): w / sum(weights) for token, w in zip(best, weights, strict=True)}


def check(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {claim}")


if __name__ == "__main__":
    main()
