"""A pair on a GPU's provider beside the processor: cost of calls, row invariance, distance, texts.

    edgespec export TARGET DRAFT -o PAIR --target-format fp32 --target-format fp16
    edgespec export TARGET DRAFT -o GPU_PAIR --for gpu --target-format fp32 --target-format fp16
    python benchmarks/gpu_provider.py GPU_PAIR PAIR --provider cuda --json out.json

For each format of the target, on the provider and on the processor: t(1), the milliseconds of a
call with one position, and v(m), the time of m positions over that; whether rows have the same bits
in calls of every width; the distance of the logits from those of the processor in fp32; tokens per
second, greedy, without a draft and with the draft on the provider and on the processor, and how
many of the texts with a draft equal those without. The file is written after each step: a run that
is cut short has something to show.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import CPU, Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import machine_of, measure_row_invariance, open_model
from record import begin, write_result
from same_texts import is_chat, prompts_for

POSITIONS = (1, 2, 5, 9, 17)
CACHED, CALLS, CAPACITY = 128, 40, 256
REFERENCE = "fp32"
WIDEST = POSITIONS[-1]
Row = dict[str, Any]


def costs(folder: Path, target_format: str, device: Device) -> Row:
    """Median milliseconds of calls with m positions after `CACHED` others."""
    model = open_target(folder, target_format, device)
    times: dict[int, list[float]] = {m: [] for m in POSITIONS}
    for call in range(CALLS + 3):
        for m, taken in times.items():
            model.rewind(CACHED)
            began = time.perf_counter()
            model.score([7] * m)
            if call >= 3:  # the first ones choose algorithms
                taken.append(time.perf_counter() - began)
    median = {m: 1e3 * statistics.median(taken) for m, taken in times.items()}
    operators = model.graph.operators
    return {
        "operators": None if operators is None else f"{operators[0]} of {operators[1]}",
        "t(1), ms": median[1],
        "v": {m: time / median[1] for m, time in median.items() if m > 1},
    }


def invariance(folder: Path, target_format: str, device: Device) -> Row:
    """Whether positions have the same bits in calls of every width.

    A GPU may choose its kernels by the size of the cache, so that is the same everywhere here.
    """
    target = read_manifest(folder).target
    found = measure_row_invariance(
        folder, target, target_format, device, calls="rows", capacity=CAPACITY
    )
    return {
        "row invariant": found.is_row_invariant,
        "from rows": found.min_rows,
        "one row differs by": found.one_row_difference,
        "widths like 17": equal_widths(folder, target_format, device),
    }


def equal_widths(folder: Path, target_format: str, device: Device) -> list[int]:
    """The numbers of rows of a call whose logits have the bits of a call of 17."""
    model = open_target(folder, target_format, device)
    tokens = np.random.default_rng(1).integers(model.vocab_size, size=WIDEST).tolist()
    expected = model.score(tokens).copy()

    def scored(width: int) -> np.ndarray:
        model.rewind(CACHED)
        starts = range(0, WIDEST + 1 - width, width)
        return np.concatenate([model.score(tokens[i : i + width]).copy() for i in starts])

    scores = {width: scored(width) for width in range(1, WIDEST)}
    return [w for w, rows in scores.items() if np.array_equal(rows, expected[: len(rows)])]


def sample_logits(folder: Path, target_format: str, device: Device) -> np.ndarray:
    """Logits after 64 random tokens, in calls of 8."""
    model = open_target(folder, target_format, device)
    tokens = np.random.default_rng(0).integers(model.vocab_size, size=64).tolist()
    return np.concatenate([model.score(tokens[i : i + 8]).copy() for i in range(0, 64, 8)])


def distance(logits: np.ndarray, reference: np.ndarray) -> Row:
    """How far logits are from a reference: the largest difference, and KL in nats."""
    p, q = (rows - rows.max(-1, keepdims=True) for rows in (reference, logits))
    p, q = (rows - np.log(np.exp(rows).sum(-1, keepdims=True)) for rows in (p, q))
    return {
        "largest difference": float(np.abs(logits - reference).max()),
        "largest logit": float(np.abs(reference).max()),
        "KL, nats": float((np.exp(p) * (p - q)).sum(-1).mean()),
        "same first choice": float((logits.argmax(-1) == reference.argmax(-1)).mean()),
    }


def open_target(folder: Path, target_format: str, device: Device) -> Any:
    """The target with `CACHED` positions in its cache."""
    target = read_manifest(folder).target
    model = open_model(folder, target, target_format, capacity=CAPACITY, device=device)
    model.prefill([7] * CACHED)  # fills no cache in an encoder-decoder
    while model.length < CACHED:
        model.score([7] * min(16, CACHED - model.length))
    return model


def texts(
    folder: Path, target_format: str, device: Device, prompts: list[str], tokens: int
) -> Iterator[tuple[str, Row]]:
    """Yields a way of drafting with its speed; the first is without a draft."""
    chat = is_chat(folder)
    has_draft = read_manifest(folder).draft is not None
    plain: list[list[int]] = []
    for draft_provider in dict.fromkeys((device.provider, CPU) if has_draft else (CPU,)):
        pair = edgespec.load(
            folder,
            threads=device.threads,
            target_format=target_format,
            provider=device.provider,
            draft_provider=draft_provider,
            allow_inexact=True,
        )
        drafter = f"draft on {draft_provider}" if has_draft else "lookup"
        kind = "model" if has_draft else "lookup"
        ways: dict[str, Row] = {
            "no draft": {"draft": False},
            f"{drafter}, γ 4": {"draft": kind, "gamma": 4},
            f"{drafter}, γ auto": {"draft": kind},
        }
        if plain:
            del ways["no draft"]
        for way, settings in ways.items():
            outcome = []
            for number, prompt in enumerate([prompts[0], *prompts]):  # the first one warms up
                done = pair.generate(prompt, chat=chat, max_new_tokens=tokens, **settings)
                if number:
                    outcome.append(done)
            ids = [done.token_ids for done in outcome]
            plain = plain or ids
            stats = [done.stats for done in outcome]
            seconds = sum(each.seconds - each.first_token_seconds for each in stats)
            later = sum(each.tokens - each.first_tokens for each in stats)
            a_call = sum(each.tokens for each in stats) / sum(each.target_calls for each in stats)
            equal = sum(a == b for a, b in zip(ids, plain, strict=True))
            yield (
                way,
                {
                    "tokens/s": later / seconds,
                    "tokens a call": a_call,
                    "texts": len(ids),
                    "texts equal to those without a draft": equal,
                },
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpu_pair", type=Path, help="exported for the provider")
    parser.add_argument("pair", type=Path, help="exported for the processor")
    parser.add_argument("--provider", default="cuda")
    parser.add_argument("--formats", nargs="*", default=["fp32", "fp16"])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    options, record = begin(parser)
    prompts = prompts_for(options.pair)[: options.prompts]
    rows: dict[str, Row] = {}

    def step(title: str, make: Callable[[], Row]) -> None:
        try:
            found = make()
        except EdgespecError as error:
            found = {"error": str(error)}
        rows.setdefault(title, {}).update(found)
        print(title, json.dumps(found, ensure_ascii=False), flush=True)
        write_result(options, record, cached=CACHED, rows=rows)

    processor = Device(options.threads, CPU)
    reference = sample_logits(options.pair, REFERENCE, processor)
    places = [
        (options.gpu_pair, Device(options.threads, options.provider)),
        (options.pair, processor),
    ]
    for folder, device in places:
        for name in options.formats:
            where = f"{name} on {device.provider}"
            what = folder, name, device
            step(where, lambda device=device: {"machine": str(machine_of(device))})
            step(where, lambda what=what: costs(*what))
            step(where, lambda what=what: invariance(*what))
            step(where, lambda what=what: distance(sample_logits(*what), reference))
            ways = texts(*what, prompts, options.tokens)
            while True:
                try:
                    way, found = next(ways)
                except StopIteration:
                    break
                except EdgespecError as error:
                    way, found = "texts", {"error": str(error)}
                step(where, lambda way=way, found=found: {way: found})


if __name__ == "__main__":
    main()
