"""Time of calls with several positions in each number format: one process after the other.

    edgespec export MODEL -o PAIR --target-format fp32 --target-format int8 …
    python benchmarks/cost_curves.py PAIR [--kernels avx512 avx2 0]

Prints the milliseconds of a call with one position, not padded, and v(m), the time of m positions
over that, for each format and each instruction set of the kernels. Each run has a process of its
own: two models in one process slow each other down. Runs take turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from itertools import product
from pathlib import Path

import numpy as np

from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import ON, SWITCH
from edgespec.pair.opening.runtime import open_model
from record import begin, write_result

POSITIONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17)
CACHED, CALLS = 128, 40


def curve(folder: Path, target_format: str, kernels: str, threads: int) -> dict[int, float]:
    """Median milliseconds of calls with m positions after `CACHED` others, by m."""
    os.environ[SWITCH] = kernels
    target = read_manifest(folder).target
    model = open_model(folder, target, target_format, capacity=256, device=Device(threads))
    model.prefill([7] * CACHED)  # fills no cache in an encoder-decoder
    while model.length < CACHED:
        model.score([7] * min(16, CACHED - model.length))
    times: dict[int, list[float]] = {m: [] for m in POSITIONS}
    for _ in range(CALLS):
        for m, taken in times.items():
            model.rewind(CACHED)
            began = time.perf_counter()
            model.score([7] * m)
            taken.append(time.perf_counter() - began)
    return {m: 1e3 * float(np.median(taken)) for m, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--processes", type=int, default=4, help="of each format")
    parser.add_argument("--formats", nargs="*", help="by default all of the target")
    parser.add_argument("--kernels", nargs="*", default=[ON], help="values of EDGESPEC_KERNELS")
    options, record = begin(parser)
    formats = options.formats or list(read_manifest(options.pair).target.variants)
    found: dict[tuple[str, str], list[dict[int, float]]] = {
        run: [] for run in product(formats, options.kernels)
    }
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for _ in range(options.processes):
            for run, curves in found.items():
                curves.append(pool.apply(curve, (options.pair, *run, options.threads)))
    rows = []
    for (name, kernels), curves in found.items():
        v = {m: float(np.median([one[m] / one[1] for one in curves])) for m in POSITIONS}
        step = float(np.median([one[1] for one in curves]))
        rows.append({"format": name, "kernels": kernels, "step_ms": step, "v": v})
        costs = "  ".join(f"v({m}) {ratio:.2f}" for m, ratio in v.items() if m > 1)
        print(f"{name:13} {kernels:7} t(1) {step:5.2f} ms  {costs}")
    write_result(options, record, cached=CACHED, processes=options.processes, rows=rows)


if __name__ == "__main__":
    main()
