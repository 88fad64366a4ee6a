"""Fused attention operators against standard ones: time of a decoder call, same weights.

    python benchmarks/attention.py CHECKPOINT_FOLDER_OR_GGUF

Prints milliseconds per call for m positions after a given number of cached ones, and the ratio
standard / fused. Calls of the two graphs alternate, so drift of the machine affects both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import Exported, Variant
from edgespec.device.device import Device
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.fused_attention import Fused
from edgespec_export.components.attention.standard_attention import Standard
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.families.tensor_check import fitted
from edgespec_export.write_graphs import write_graphs
from edgespec_runtimes.ort.ort_model import OrtModel
from record import begin, write_result

POSITIONS = (1, 2, 5, 9)
CACHES = (16, 128, 1024, 4096)
REPEATS = 60


def build(source: str, folder: Path, attention: Attention, threads: int) -> OrtModel:
    checkpoint = open_checkpoint(resolve(source))
    family = fitted(checkpoint)
    write_graphs(
        checkpoint.weights,
        family,
        folder,
        number_format=FullPrecision(),
        attentions={DECODER: attention},
    )
    exported = Exported(
        family.family,
        checkpoint.label,
        family.vocab_size,
        family.layers,
        family.kv_heads,
        family.head_size,
        family.capacity,
        family.positions,
        family.start_token,
        {"fp32": Variant({name: f"{name}.onnx" for name in family.graphs}, "fp32", "fp32")},
    )
    return OrtModel(folder, exported, "fp32", capacity=max(CACHES) + 32, device=Device(threads))


def call(model: OrtModel, tokens: list[int]) -> float:
    length = model.length
    began = time.perf_counter()
    model.score(tokens)
    took = time.perf_counter() - began
    model.rewind(length)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    options, record = begin(parser)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        models = {}
        for name, attention in (("fused", Fused()), ("standard", Standard())):
            folder = Path(scratch, name)
            folder.mkdir()
            models[name] = build(options.checkpoint, folder, attention, options.threads)
        generator = np.random.default_rng(0)
        for cached in CACHES:
            for model in models.values():
                model.prefill([3, 4, 5, 1])
                for start in range(0, cached, 64):
                    size = min(64, cached - start)
                    model.score([int(t) for t in generator.integers(model.vocab_size, size=size)])
            for positions in POSITIONS:
                times = {name: [] for name in models}
                for _ in range(REPEATS):
                    for name, model in models.items():
                        times[name].append(call(model, [7] * positions))
                ms = {name: 1e3 * float(np.median(took)) for name, took in times.items()}
                ratio = ms["standard"] / ms["fused"]
                rows.append({"cached": cached, "positions": positions, **ms, "ratio": ratio})
                print(
                    f"cache {cached:5d}  m {positions:2d}  fused {ms['fused']:7.3f} ms  "
                    f"standard {ms['standard']:7.3f} ms  ratio {ratio:.2f}"
                )
    write_result(options, record, checkpoint=options.checkpoint, n=REPEATS, rows=rows)


if __name__ == "__main__":
    main()
