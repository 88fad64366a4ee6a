"""Checks that a pair speculates exactly on the machine that runs this: `make test-arm64`.

    scripts/arm64/run cortex-a76 scripts/arm64/check_pair.py FOLDER PROMPT…

Ends with an error unless

1. with ONNX Runtime's flash attention on, bits are found to depend on the number of rows,
2. as edgespec runs it, it is, and
3. greedy texts with a draft are those without.

Without the first, the second would show nothing: the emulator might hide what an ARM processor
does.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import edgespec
from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.device.device import Device
from edgespec.pair.opening.invariance_cache import measured_invariance
from edgespec.pair.opening.runtime import machine_of, open_model
from edgespec_runtimes.invariance import SHORT, measure_row_invariance
from edgespec_runtimes.ort.processor.flash_attention import SWITCH

DEVICE = Device(threads=1)
MAX_NEW_TOKENS = 12
CAPACITY_OF_ONE_START = 40  # row invariance is then measured behind one cached position only


def main(folder: Path, prompts: list[str]) -> None:
    manifest = read_manifest(folder)
    variant = next(iter(manifest.target.variants))
    print(f"{folder} {variant} on {platform.machine()}", flush=True)

    began = time.perf_counter()
    found = with_flash_attention(folder, manifest, variant)
    report("with flash attention", found, began)
    differs = not found.is_row_invariant or found.min_rows > 1
    check(differs, "with flash attention bits should depend on the number of rows")

    began = time.perf_counter()
    found = measured_invariance(folder, manifest, variant, DEVICE)
    report("as edgespec runs it", found, began)
    check(found.is_row_invariant, "the target should be row-invariant")
    check(found.min_rows == 1, "one position should have the bits of several")
    check(SWITCH not in os.environ, "the variable should be set for sessions only")

    pair = edgespec.load(folder, threads=DEVICE.threads)
    for prompt in prompts:
        began = time.perf_counter()
        plain = pair.generate(prompt, draft=False, max_new_tokens=MAX_NEW_TOKENS)
        drafted = pair.generate(prompt, draft="model", gamma=3, max_new_tokens=MAX_NEW_TOKENS)
        stats = drafted.stats
        print(
            f"  {len(plain.token_ids)} tokens, {stats.accepted} of {stats.drafted} drafted ones "
            f"accepted, {time.perf_counter() - began:.0f} s: {plain.text!r}",
            flush=True,
        )
        check(stats.drafted > 0, "a draft should be used")
        check(drafted.token_ids == plain.token_ids, f"with draft the text is {drafted.text!r}")


def with_flash_attention(folder: Path, manifest: Manifest, variant: str) -> RowInvariance:
    os.environ[SWITCH] = "0"
    try:
        model = open_model(
            folder, manifest.target, variant, capacity=CAPACITY_OF_ONE_START, device=DEVICE
        )
        return measure_row_invariance(model, machine_of(DEVICE), SHORT)
    finally:
        del os.environ[SWITCH]


def report(what: str, found: RowInvariance, began: float) -> None:
    result = "row-invariant" if found.is_row_invariant else "NOT row-invariant"
    print(
        f"  {what}: {result} from {found.min_rows}, {time.perf_counter() - began:.0f} s "
        f"({found.measured_on})",
        flush=True,
    )


def check(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {claim}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
