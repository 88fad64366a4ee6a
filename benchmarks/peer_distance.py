"""KL from fp32 of peers' quantizations and of edgespec's formats, of the same weights.

    benchmarks/peers/install .peers
    python benchmarks/peer_distance.py build/smollm2 --weights F32 Q8_0 Q4_K_M Q4_0 --json FILE

The pair needs a variant in fp32, the reference. Scored are the texts of the exporter's own
distance, and the texts that are given. llama.cpp's F32 shows what the two programs differ by.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.artifact.row_invariance import Distance
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.opening.sample_prompts import sample_texts
from edgespec.pair.opening.variant_quality import Sample, Scorer, distance, samples_for
from edgespec.pair.tokenizer import load_tokenizer
from peers.recorded import Recorded, pieces, scored_texts
from peers.running import ROOT, Paths, add_path_options, paths_of
from peers.ways import Way
from record import begin, write_result

REFERENCE = "fp32"
# What computes a peer's logits, and the file of its model that it reads.
SCRIPTS = {
    "llama.cpp": (ROOT / "benchmarks/peers/llama_logits.py", "model.gguf"),
    "openvino": (ROOT / "benchmarks/peers/openvino_logits.py", "openvino_model.xml"),
}


def logits_of(
    paths: Paths, way: Way, samples: Sequence[Sample], threads: int
) -> npt.NDArray[np.float32]:
    """A peer's logits of the samples, from a process of its own.

    Raises:
        PeerError: the model could not be made.
        subprocess.CalledProcessError: the peer failed.
    """
    paths.make_model(way)
    script, file = SCRIPTS[way.peer]
    binding = {
        "PYTHONPATH": str(paths.peers / "llama-cpp-python"),
        "LLAMA_CPP_LIB_PATH": str(paths.peers / "llama.cpp/bin"),
    }
    with tempfile.TemporaryDirectory() as folder:
        texts, logits = Path(folder, "texts.json"), Path(folder, "logits.npy")
        texts.write_text(json.dumps(scored_texts(samples)))
        model = paths.model(way) / file
        subprocess.run(
            [paths.python, script, model, texts, logits, "--threads", str(threads)],
            env=os.environ | binding,
            check=True,
        )
        found: npt.NDArray[np.float32] = np.load(logits)
        return found


def distances(
    options: argparse.Namespace, manifest: Manifest, samples: Sequence[Sample], reference: Scorer
) -> Iterator[tuple[str, int, Distance]]:
    """Name, bytes of weights and distance of edgespec's other variants and the peers' models."""
    device = Device(options.threads)
    for name in manifest.target.variants:
        if name != REFERENCE:
            model = open_model(options.pair, manifest.target, name, device=device, min_rows=2)
            found = distance(reference, model, samples, REFERENCE)
            yield f"edgespec {name}", manifest.bytes("target", name), found
    paths = paths_of(options)
    asked = {"llama.cpp": options.weights, "openvino": options.openvino}
    for way in (Way(peer, each, "plain") for peer, weights in asked.items() for each in weights):
        logits = logits_of(paths, way, samples, options.threads)
        size = max(file.stat().st_size for file in paths.model(way).iterdir())
        found = distance(reference, Recorded(logits), samples, REFERENCE)
        yield f"{way.peer} {way.weights}", size, found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("texts", type=Path, nargs="*", help="scored besides the exporter's sample")
    parser.add_argument("--weights", nargs="*", default=["F32", "Q8_0", "Q4_K_M", "Q4_0"])
    parser.add_argument("--openvino", nargs="*", default=["F16", "int8", "int4"])
    add_path_options(parser)
    options, record = begin(parser)
    manifest = read_manifest(options.pair)
    tokenizer = load_tokenizer(options.pair)
    device = Device(options.threads)
    reference = open_model(options.pair, manifest.target, REFERENCE, device=device, min_rows=2)
    sources = {"exporter": [tokenizer.encode(text).ids for text in sample_texts(manifest.target)]}
    if options.texts:
        prose = "\n".join(path.read_text(encoding="utf-8") for path in options.texts)
        sources["given"] = pieces(tokenizer.encode(prose).ids)
    rows: list[dict[str, Any]] = []
    for text, ids in sources.items():
        samples = samples_for(reference, ids, encodes=False)
        for name, size, found in distances(options, manifest, samples, reference):
            print(f"{text:9} {name:18} {size / 1e6:6.1f} MB  {found}", flush=True)
            rows.append({"text": text, "model": name, "weight_bytes": size, **asdict(found)})
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
