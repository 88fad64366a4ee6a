"""Cache formats: bytes, milliseconds per call, and distance from float32.

    python benchmarks/cache_formats.py CHECKPOINT TEXT_FILE... [--target-format int8]

Calls of the variants alternate, so drift of the machine affects all. The distance is from float32
weights and cache, over the last 512 of 2 048 tokens of the text, so after at least 1 536 others.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from edgespec.artifact.graph_io import CACHE_FORMATS, cache_buffers
from edgespec.artifact.manifest import Exported
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.opening.variant_quality import distance
from edgespec.pair.tokenizer import load_tokenizer
from edgespec_export.export_pair import export_pair
from record import begin, write_result

POSITIONS = (1, 2, 5)  # a plain step may be padded to two rows (row invariance)
PREFILLS = 3
CACHES = (2048, 512, 64)
CONTEXT = 1536  # tokens before those whose distance is measured
REFERENCE = "fp32"
SPARE_POSITIONS = 32


def cache_bytes(exported: Exported, cache: str) -> int:
    """Bytes of a cache with the greatest measured length."""
    widths = [
        np.dtype(buffer.dtype).itemsize * buffer.width
        for buffer in cache_buffers(exported.cache_shapes, cache)
    ]
    return exported.kv_heads * CACHES[0] * sum(widths)


def call(model: Model, rows: int) -> float:
    length = model.length
    began = time.perf_counter()
    model.score([7] * rows)
    took = time.perf_counter() - began
    model.rewind(length)
    return took


def timed(models: dict[str, Model], text: list[int], repeats: int) -> list[dict[str, object]]:
    """Rows of median milliseconds per call, by cache format; the first row is the prompt."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(PREFILLS):
        for name, model in models.items():
            began = time.perf_counter()
            model.score([model.prefill(text[: CACHES[0]])])
            times[name].append(time.perf_counter() - began)
    rows = [row_of(0, CACHES[0], times)]
    for cached in CACHES:
        for model in models.values():
            model.rewind(cached)
        for positions in POSITIONS:
            times = {name: [] for name in models}
            for _ in range(repeats):
                for name, model in models.items():
                    times[name].append(call(model, positions))
            rows.append(row_of(cached, positions, times))
    return rows


def row_of(cached: int, positions: int, times: dict[str, list[float]]) -> dict[str, object]:
    ms = {name: 1e3 * float(np.median(took)) for name, took in times.items()}
    printed = "  ".join(f"{name} {value:8.3f} ms" for name, value in ms.items())
    print(f"cache {cached:5d}  m {positions:4d}  {printed}")
    return {"cached": cached, "positions": positions, **ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--target-format", default="fp32")
    parser.add_argument("--repeats", type=int, default=30)
    options, record = begin(parser)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "pair")
        exported = export_pair(
            options.checkpoint,
            None,
            folder,
            target_formats=[options.target_format, REFERENCE],
            cache_formats=list(CACHE_FORMATS),
            measure=False,
        ).target
        opened = partial(
            open_model,
            folder,
            exported,
            capacity=CACHES[0] + SPARE_POSITIONS,
            device=Device(options.threads),
            min_rows=2,
        )
        variants = list(exported.variants)[: len(CACHE_FORMATS)]
        models = {exported.variants[name].cache_format: opened(name) for name in variants}
        content = "\n".join(path.read_text(encoding="utf-8") for path in options.texts)
        text = load_tokenizer(folder).encode(content).ids
        if len(text) < CACHES[0]:
            parser.error(f"the texts have {len(text)} tokens; {CACHES[0]} are needed")
        rows = timed(models, text, options.repeats)
        sample = [(text[:CONTEXT], text[CONTEXT : CACHES[0]])]
        reference = opened(REFERENCE)
        found = {}
        for name, model in models.items():
            change = distance(reference, model, sample, REFERENCE)
            found[name] = {"bytes": cache_bytes(exported, name), **dataclasses.asdict(change)}
            print(name, found[name])
    about = {
        "checkpoint": options.checkpoint,
        "format": options.target_format,
        "texts": [str(path) for path in options.texts],
        "n": options.repeats,
    }
    write_result(options, record, **about, rows=rows, caches=found)


if __name__ == "__main__":
    main()
