"""Checks that a pair exported for a device speculates exactly on a provider: `make test-providers`.

    scripts/providers/run_webgpu ENVIRONMENT scripts/providers/check_pair.py PROVIDER FOLDER …

Ends with an error unless, for each folder,

1. logits are those of the processor but for rounding, and the target is row-invariant there,
2. greedy texts with a draft are those without, with target and draft on the provider or the
   processor in all combinations,
3. no call copies keys and values between the host and the device.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

import edgespec
from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.device.device import CPU, Device
from edgespec.pair.opening.invariance_cache import invariance_here
from edgespec.pair.opening.sample_prompts import prompts_for
from edgespec.pair.pair import Pair

GAMMA = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("provider")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=8)
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
    pairs = {
        (target, draft): edgespec.load(
            folder, threads=1, capacity=options.capacity, provider=target, draft_provider=draft
        )
        for target in (provider, CPU)
        for draft in (provider, CPU)
    }
    for (target, draft), pair in pairs.items():
        if (target, draft) != (CPU, CPU):
            most = len(prompts) if target == draft else 2
            check_texts(pair, prompts[:most], options.tokens, f"target {target}, draft {draft}")


def prompts_of(manifest: Manifest, count: int) -> list[str]:
    """So many prompts: the built-in ones, and their parts."""
    whole = [text for texts in prompts_for(manifest).values() for text in texts]
    parts = [" ".join(text.split()[start : start + 6]) for text in whole for start in (0, 2, 4, 6)]
    return [text for text in (*whole, *parts) if 0 < len(text) < 60][:count]


def check_texts(pair: Pair, prompts: list[str], tokens: int, what: str) -> None:
    """Greedy texts with a draft are those without; prints counts."""
    target = pair.target
    began, before = time.perf_counter(), target.copied_bytes
    drafted = accepted = calls = 0
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, max_new_tokens=tokens)
        text = pair.generate(prompt, draft="model", gamma=GAMMA, max_new_tokens=tokens)
        check(text.token_ids == plain.token_ids, f"{prompt!r}: {text.text!r}, not {plain.text!r}")
        drafted, accepted = drafted + text.stats.drafted, accepted + text.stats.accepted
        calls += text.stats.target_calls
    check(drafted > 0, "a draft should be used")
    print(
        f"  {what}: {len(prompts)} texts, {accepted} of {drafted} drafted tokens accepted, "
        f"{calls} calls, {time.perf_counter() - began:.0f} s, "
        f"{target.copied_bytes - before} bytes copied",
        flush=True,
    )


def check(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {claim}")


if __name__ == "__main__":
    main()
