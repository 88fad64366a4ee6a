"""Checks that a pair exported for a device speculates exactly on a provider.

    python scripts/providers/check_pair.py PROVIDER FOLDER … [--prompts N] [--tokens N] [--gamma N]
        [--mixed N] [--on target|draft|both …] [--capacity N] [--samples N] [--format NAME]

`make test-providers` runs it on WebGPU, `make test-npu` on Qualcomm's NPU; both are emulated. Ends
with an error unless, for each folder and each format of its target,

1. logits are those of the processor but for rounding, and the target is row-invariant there,
2. greedy texts with a draft are those without, with target and draft on the provider or the
   processor in all combinations (--mixed prompts where the two differ; --on only these),
3. with --samples, sampled texts with a draft have the target's distribution,
4. no call copies the cache: keys and values of its own rows at most, and none to a GPU,
5. on an NPU, no operator is left to the processor: such a session is refused.

It prints which operators are left to the processor, what a call copies, and how many calls and
copied bytes a round has.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from provider_copies import RoundCounts, check_gpu_copies, check_npu_copies
from sampled_law import check_law

import edgespec
from edgespec.artifact.hosts import NPU
from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.device.device import CPU, Device
from edgespec.pair.opening.invariance_cache import invariance_here
from edgespec.pair.opening.sample_prompts import prompts_for
from edgespec.pair.pair import Pair


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("provider")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--capacity", type=int, help="of the cache; an NPU's is exported")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--mixed", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--on", nargs="+", choices=("both", "draft", "target"), help="default: all")
    parser.add_argument("--format", help="of the target; default: each")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="  %(message)s", stream=sys.stdout)
    for folder in options.folders:
        manifest = read_manifest(folder)
        for variant in [options.format] if options.format else manifest.target.variants:
            check_pair(folder, manifest, variant, options)
    print("all held", flush=True)


def check_pair(folder: Path, manifest: Manifest, variant: str, options: argparse.Namespace) -> None:
    provider = options.provider
    print(f"{folder} {variant} on {provider}", flush=True)
    began = time.perf_counter()
    found = invariance_here(folder, manifest, variant, Device(1, provider), options.capacity)
    rows = f"calls of {found.min_rows} to {found.max_rows} rows"
    print(f"  row-invariant: {found.is_row_invariant}, {rows}, {_since(began)}", flush=True)
    check(found.is_row_invariant, "the target should be row-invariant")
    prompts = prompts_of(manifest, options.prompts)
    for on, target, draft in placements(manifest, provider):
        if options.on is not None and on not in options.on:
            continue
        most = options.mixed if CPU in (target, draft) and not stays(manifest) else len(prompts)
        if most == 0:
            continue
        pair = edgespec.load(
            folder,
            threads=1,
            capacity=options.capacity,
            target_format=variant,
            provider=target,
            draft_provider=draft,
        )
        where = f"target {target}, draft {draft}"
        check_texts(pair, prompts[:most], options, where)
        if target == provider and (draft == provider or stays(manifest)):
            check_copies(folder, manifest, variant, pair, options)
            if options.samples:
                report(*check_law(pair, prompts[0], options.samples))


def stays(manifest: Manifest) -> bool:
    """Whether the draft stays on the processor: one of an NPU's folder that reads its target."""
    draft = manifest.draft
    assert draft is not None, "a pair"
    return manifest.host == NPU and next(iter(draft.variants.values())).static is None


def placements(manifest: Manifest, provider: str) -> Iterator[tuple[str, str, str]]:
    """What is on the provider, and where target and draft are."""
    if not stays(manifest):
        yield "both", provider, provider
        yield "draft", CPU, provider
    yield "target", provider, CPU


def prompts_of(manifest: Manifest, count: int) -> list[str]:
    """So many prompts: the built-in ones, and their parts."""
    whole = [text for texts in prompts_for(manifest).values() for text in texts]
    parts = [" ".join(text.split()[start : start + 6]) for text in whole for start in (0, 2, 4, 6)]
    return [text for text in (*whole, *parts) if 0 < len(text) < 60][:count]


def check_texts(pair: Pair, prompts: list[str], options: argparse.Namespace, where: str) -> None:
    """Greedy texts with a draft are those without; prints counts."""
    began = time.perf_counter()
    drafted = accepted = calls = tokens = 0
    counts = RoundCounts(pair)
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, max_new_tokens=options.tokens)
        drafting = {"draft": "model", "gamma": options.gamma, "max_new_tokens": options.tokens}
        text = counts.of(pair.stream(prompt, **drafting))
        check(text.token_ids == plain.token_ids, f"{prompt!r}: {text.text!r}, not {plain.text!r}")
        drafted, accepted = drafted + text.stats.drafted, accepted + text.stats.accepted
        calls, tokens = calls + text.stats.target_calls, tokens + len(plain.token_ids)
    check(drafted > 0, "a draft should be used")
    print(
        f"  {where}: {len(prompts)} texts of {tokens} tokens are equal, {accepted} of {drafted} "
        f"drafted tokens accepted, {calls} calls of the target, {_since(began)}",
        flush=True,
    )
    print(f"  {counts}", flush=True)


def check_copies(
    folder: Path, manifest: Manifest, variant: str, pair: Pair, options: argparse.Namespace
) -> None:
    """What a call copies: tokens, positions and logits, on an NPU also its own keys and values."""
    target, device = manifest.target, Device(1, options.provider)
    if manifest.host == NPU:
        lines = check_npu_copies(folder, target, variant, device)
    else:
        lines = check_gpu_copies(folder, target, variant, device, pair, options.gamma + 1)
    for holds, line in lines:
        report(holds, line)


def report(holds: bool, seen: str) -> None:
    check(holds, seen)
    print(f"  {seen}", flush=True)


def check(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {claim}")


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.0f} s"


if __name__ == "__main__":
    main()
