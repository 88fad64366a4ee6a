"""Number formats of a target: a prompt's seconds, milliseconds per call, distance from fp32.

    edgespec export SOURCE --no-draft -o PAIR --target-format fp32 --target-format fp16 \\
        --target-format bf16-products
    python benchmarks/weight_formats.py PAIR docs/decisions/*.md --formats fp16 bf16-products

Calls of the formats alternate, so drift of the machine affects all; times are the shortest of all
repeats. The distance is over the last 512 of 2 048 tokens of the text.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from edgespec.artifact.manifest import read_manifest
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.opening.variant_quality import distance
from edgespec.pair.tokenizer import load_tokenizer
from record import begin, write_result

REFERENCE = "fp32"
CALLS = (1, 2, 3, 4, 5, 9, 17)  # positions
CONTEXT, SCORED = 1536, 512  # tokens before those whose distance is measured, and these


def seconds(model: Model, tokens: list[int]) -> float:
    """Of a prompt, from an empty cache to the logits of its last token."""
    began = time.perf_counter()
    model.score([model.prefill(tokens)])
    return time.perf_counter() - began


def call(model: Model, positions: int) -> float:
    length = model.length
    began = time.perf_counter()
    model.score([7] * positions)
    took = time.perf_counter() - began
    model.rewind(length)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--formats", nargs="+", required=True)
    parser.add_argument("--prompts", type=int, nargs="+", default=[1024, 3000, 8000])
    parser.add_argument("--repeats", type=int, default=5)
    options, record = begin(parser)
    target = read_manifest(options.pair).target
    texts = "\n".join(path.read_text(encoding="utf-8") for path in options.texts)
    tokens = load_tokenizer(options.pair).encode(texts).ids
    device = Device(options.threads)
    models = {
        name: open_model(options.pair, target, name, device=device) for name in options.formats
    }
    rows = []
    for length in options.prompts:
        times = {name: [] for name in models}
        for _ in range(options.repeats):
            for name, model in models.items():
                times[name].append(seconds(model, tokens[:length]))
        rows.append(row_of(f"prompt of {length}", times))
    for model in models.values():
        seconds(model, tokens[:256])
    for positions in CALLS:
        times = {name: [] for name in models}
        for _ in range(40 * options.repeats):
            for name, model in models.items():
                times[name].append(call(model, positions))
        rows.append(row_of(f"call of {positions}", times))
    distances = {}
    reference = open_model(options.pair, target, REFERENCE, device=device)
    sample = (tokens[:CONTEXT], tokens[CONTEXT : CONTEXT + SCORED])
    for name, model in models.items():
        found = distance(reference, model, [sample], REFERENCE)
        distances[name] = dataclasses.asdict(found)
        print(f"{name}: {found}")
    write_result(options, record, rows=rows, distances=distances)


def row_of(what: str, times: dict[str, list[float]]) -> dict[str, object]:
    ms = {name: 1e3 * min(took) for name, took in times.items()}
    first = next(iter(ms.values()))
    printed = "  ".join(
        f"{name} {value:9.3f} ms (×{first / value:.2f})" for name, value in ms.items()
    )
    print(f"{what:15}  {printed}", flush=True)
    return {"what": what, "ms": ms}


if __name__ == "__main__":
    main()
