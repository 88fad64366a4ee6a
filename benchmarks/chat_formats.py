"""Whole chats, by number format and by instruction set of the kernels.

    python benchmarks/chat_formats.py PAIR --formats int8 int4 --kernels avx512 avx2 [--kinds chat]

Answers the prompts of six kinds (prompts/six_kinds.json) greedily, prompts included, plainly and
with the default draft. Prints tokens per second of all answers together: the median of the rounds,
in which the ways take turns, a process each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import edgespec
from edgespec.device.kernels import ON, SWITCH
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
Speeds = dict[str, float]


def speeds(
    folder: Path, target_format: str, kernels: str, prompts: list[dict[str, Any]], threads: int
) -> Speeds:
    """Tokens per second without a draft and with the default one."""
    os.environ[SWITCH] = kernels
    pair = edgespec.load(folder, target_format=target_format, threads=threads)
    found = {}
    for way, draft in (("plain", False), ("draft", True)):
        tokens, seconds = 0, 0.0
        for prompt in prompts:
            limit = min(96, prompt["max_new_tokens"])
            began = time.perf_counter()
            result = pair.generate(prompt["prompt"], chat=True, draft=draft, max_new_tokens=limit)
            seconds += time.perf_counter() - began
            tokens += len(result.token_ids)
        found[way] = tokens / seconds
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--formats", nargs="+", required=True)
    parser.add_argument("--kernels", nargs="+", default=[ON], help="values of EDGESPEC_KERNELS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=11, help="how many")
    parser.add_argument("--kinds", nargs="+", help="of prompts; by default all")
    options, record = begin(parser)
    prompts = [
        p for p in json.loads(PROMPTS.read_text()) if p["kind"] in (options.kinds or p["kind"])
    ]
    prompts = prompts[:: max(1, len(prompts) // options.prompts)]
    found: dict[tuple[str, str], list[Speeds]] = {
        way: [] for way in product(options.formats, options.kernels)
    }
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for _ in range(options.rounds):
            for way, rounds in found.items():
                arguments = (options.pair, *way, prompts, options.threads)
                rounds.append(pool.apply(speeds, arguments))
    rows = []
    for (target_format, kernels), rounds in found.items():
        medians = {way: float(np.median([one[way] for one in rounds])) for way in rounds[0]}
        rows.append({"format": target_format, "kernels": kernels, **medians, "rounds": rounds})
        plain, draft = medians["plain"], medians["draft"]
        print(f"{target_format:6} {kernels:7} plain {plain:6.1f}  draft {draft:6.1f} tokens/s")
    write_result(options, record, kinds=options.kinds, prompts=len(prompts), rows=rows)


if __name__ == "__main__":
    main()
