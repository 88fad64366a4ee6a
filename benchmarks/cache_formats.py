"""Cache formats: bytes, milliseconds per call, and distance from float32.

    python benchmarks/cache_formats.py CHECKPOINT TEXT_FILE... [--target-format int8]
        [--length 512 --length 3000] [--cache-format int8 --cache-format int8-bf16]

Calls of the variants alternate, so drift of the machine affects all; they are timed after the first
length. The distance is over the last 256 tokens of each length, after all others: from float32
weights and cache, and from the first of the caches with the same weights.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import cache_buffers
from edgespec.artifact.manifest import Exported
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.opening.variant_quality import mean_kl
from edgespec.pair.tokenizer import load_tokenizer
from edgespec_export.components.attention.cache_formats import CACHE_FORMATS
from edgespec_export.export_pair import export_pair
from record import begin, write_result

POSITIONS = (1, 2, 5)  # a plain step may be padded to two rows (row invariance)
PREFILLS = 3
LENGTH = 2048  # tokens of the text
SHORTER = (512, 64)  # cached tokens before further calls
MEASURED = 256  # tokens whose distance is measured
REFERENCE = "fp32"
WHOLE = "fp32 weights and cache"
SPARE_POSITIONS = 32


def cache_bytes(exported: Exported, cache: str, length: int) -> int:
    """Bytes of a cache of so many positions."""
    widths = [
        np.dtype(buffer.dtype).itemsize * buffer.width
        for buffer in cache_buffers(exported.cache_shapes, CACHE_FORMATS[cache].stored)
    ]
    return exported.kv_heads * length * sum(widths)


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
            model.score([model.prefill(text)])
            times[name].append(time.perf_counter() - began)
    rows = [row_of(0, len(text), times)]
    for cached in (len(text), *SHORTER):
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


def distances(models: dict[str, Model], text: list[int], first: str) -> dict[str, object]:
    """How far the last tokens' distributions are from the reference's and from those of `first`,
    by cache format."""
    logits = {name: _logits(model, text) for name, model in models.items()}
    found: dict[str, object] = {}
    for name, of_cache in logits.items():
        found[name] = {
            "kl": mean_kl(logits[WHOLE], of_cache),
            "top1": _top1(logits[WHOLE], of_cache),
            "kl_from_first": mean_kl(logits[first], of_cache),
            "top1_of_first": _top1(logits[first], of_cache),
        }
        print(len(text), name, found[name], flush=True)
    return found


def _logits(model: Model, text: list[int]) -> npt.NDArray[np.float32]:
    pending = model.prefill(text[:-MEASURED])
    return model.score([pending, *text[-MEASURED:-1]]).copy()


def _top1(reference: npt.NDArray[np.float32], logits: npt.NDArray[np.float32]) -> float:
    return float((reference.argmax(axis=1) == logits.argmax(axis=1)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--target-format", default="fp32")
    parser.add_argument("--length", type=int, action="append")
    parser.add_argument("--cache-format", action="append", choices=CACHE_FORMATS)
    parser.add_argument("--repeats", type=int, default=30)
    options, record = begin(parser)
    caches = options.cache_format or list(CACHE_FORMATS)
    lengths = options.length or [LENGTH]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "pair")
        exported = export_pair(
            options.checkpoint,
            None,
            folder,
            target_formats=[options.target_format, REFERENCE],
            cache_formats=list(dict.fromkeys([*caches, REFERENCE])),
            measure=False,
        ).target
        opened = partial(
            open_model,
            folder,
            exported,
            capacity=max(lengths) + SPARE_POSITIONS,
            device=Device(options.threads),
            min_rows=2,
        )
        models: dict[str, Model] = {
            name: opened(variant) for name, variant in zip(caches, exported.variants, strict=False)
        }
        content = "\n".join(path.read_text(encoding="utf-8") for path in options.texts)
        text = load_tokenizer(folder).encode(content).ids
        if len(text) < max(lengths):
            parser.error(f"the texts have {len(text)} tokens; {max(lengths)} are needed")
        rows = timed(models, text[: lengths[0]], options.repeats)
        models[WHOLE] = opened(REFERENCE)
        found = {length: distances(models, text[:length], caches[0]) for length in lengths}
        sizes = {name: cache_bytes(exported, name, lengths[0]) for name in caches}
    about = {
        "checkpoint": options.checkpoint,
        "format": options.target_format,
        "texts": [str(path) for path in options.texts],
        "n": options.repeats,
    }
    write_result(options, record, **about, rows=rows, bytes=sizes, distances=found)


if __name__ == "__main__":
    main()
