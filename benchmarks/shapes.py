"""Shapes of T5, MADLAD, Qwen and Gemma with random weights: memory and time, not texts.

    python benchmarks/shapes.py make   SCRATCH t5-xxl                   # 22 GB of bf16 safetensors
    python benchmarks/shapes.py export SCRATCH t5-xxl --format int8     # peak memory and time
    python benchmarks/shapes.py run    SCRATCH t5-xxl --format int8 --acceptance 0.75 --gamma 7 8

`make` writes shard by shard. `run` loads the pair and times it, plainly and with its draft, whose
tokens are accepted by a coin. `--divisor 4` divides the target's widths by four, for a small
machine. A folder of `make` is deleted by hand; 1.7B take 4 GB, 4B take 8 GB. A shape without a
smaller relative is exported without a draft and cannot be run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

import edgespec
from edgespec.measure.bench import bench_synthetic
from record import begin, write_result
from shape_configs import config, tensors

ROOT = Path(__file__).parents[1]
SHARD_BYTES = 2 * 10**9
SAMPLE_SECONDS = 0.1
DRAFTS = {
    "t5-xxl": "t5-small",
    "madlad-3b": None,
    "qwen3-1.7b": "qwen3-draft",
    "qwen3-4b": "qwen3-0.6b",
    "gemma3-4b": "gemma3-270m",
    "gemma3-1b": None,
    "gemma4-e2b": "gemma4-assistant",
    "qwen3.5-2b": "qwen3.5-0.8b",
}
# Texts mean nothing, so any tokenizer with at most as many tokens as the model serves.
TOKENIZERS = {"t5": "en-de-target"}
OTHER_TOKENIZER = "smollm2-draft"


def make(folder: Path, shape: str, divisor: int) -> dict[str, Any]:
    """Writes a checkpoint of a shape and returns its size."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = config(shape, divisor)
    weight_map: dict[str, str] = {}
    size = 0
    for number, shard in enumerate(_shards(sizes), start=1):
        name = f"model-{number:05d}.safetensors"
        save_file(shard, folder / name)
        weight_map |= dict.fromkeys(shard, name)
        size += sum(array.nbytes for array in shard.values())
    listing = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listing))
    (folder / "config.json").write_text(json.dumps(sizes, indent=2))
    source = TOKENIZERS.get(sizes["model_type"], OTHER_TOKENIZER)
    tokenizer = ROOT / "models" / source / "tokenizer.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    print(f"{folder}: {size / 1e9:.1f} GB, {len(set(weight_map.values()))} shards")
    return {"shape": shape, "divisor": divisor, "parameters": size // 2}


def _shards(sizes: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """Random tensors in bf16, in parts of about `SHARD_BYTES`; norms are ones."""
    # One block of random numbers, rotated differently for each tensor: 11 billion draws would take
    # longer than the measurement.
    block = np.random.default_rng(0).standard_normal(2**24, np.float32) / np.float32(16)
    shard: dict[str, np.ndarray] = {}
    for number, (name, shape) in enumerate(tensors(sizes)):
        count = int(np.prod(shape))
        if name.endswith("token_ordering"):  # of an assistant: token ids by their groups
            shard[name] = np.arange(count)
            continue
        if len(shape) == 1:
            values = np.ones(count, ml_dtypes.bfloat16)
        else:
            scaled = (block * shape[-1] ** -0.5).astype(ml_dtypes.bfloat16)
            values = np.resize(np.roll(scaled, 7919 * number), count)
        shard[name] = values.reshape(shape)
        if sum(array.nbytes for array in shard.values()) > SHARD_BYTES:
            yield shard
            shard = {}
    if shard:
        yield shard


def export(models: Sequence[Path], pair: Path, format_: str, calibration: str) -> dict[str, Any]:
    """Runs `edgespec export` in a process of its own and reports its time and peak memory.

    Args:
        models: the target's checkpoint, and the draft's if there is one.
        calibration: what int4 is calibrated on; "none" is fast, and random weights need no other.
    """
    command = [
        *(sys.executable, "-m", "edgespec", "export", *map(str, models), "-o", str(pair)),
        *("--target-format", format_, "--draft-format", format_, "--no-measure", "--force"),
        *("--calibration", calibration),
    ]
    began = time.perf_counter()
    own = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            own = max(own, _memory("RssAnon", process.pid))
            time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(f"the export failed with status {process.returncode}")
    seconds = time.perf_counter() - began
    # The resident memory of the largest child, pages of mapped files included.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    size = sum(path.stat().st_size for path in pair.rglob("*") if path.is_file())
    print(
        f"{pair}: {seconds:.0f} s, peak memory {peak / 1e9:.2f} GB ({own / 1e9:.2f} GB without "
        f"mapped files, sampled), {size / 1e9:.2f} GB on disk"
    )
    return {
        "seconds": round(seconds, 1),
        "peak_bytes": peak,
        "peak_bytes_without_mapped_files": own,
        "bytes_on_disk": size,
    }


def run(pair: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Loads a pair and times it; the acceptance is given, so only the machine is measured."""
    began = time.perf_counter()
    # Drafted tokens that are accepted by a coin make no exact text anyway.
    loaded = edgespec.load(pair, threads=options.threads, allow_inexact=True)
    seconds, anonymous = time.perf_counter() - began, _memory("RssAnon")
    print(f"loaded in {seconds:.1f} s, {anonymous / 1e9:.2f} GB besides mapped files")
    found = bench_synthetic(
        loaded, options.acceptance, max_new_tokens=options.tokens, gammas=options.gamma
    )
    for row in found:
        print(f"{row.way:12} {row.tokens_per_second:6.2f} tokens/s  ×{row.ratio:.2f}")
    return {
        "load_seconds": round(seconds, 1),
        "loaded_bytes": anonymous,
        "peak_bytes": _memory("VmHWM"),
        "acceptance": options.acceptance,
        "rows": [asdict(row) for row in found],
    }


def _memory(field: str, process: int | str = "self") -> int:
    """A field of a process's status on Linux, in bytes; 0 if the process has ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(s.split()[1]) * 1024 for s in lines if s.startswith(f"{field}:")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("make", "export", "run"))
    parser.add_argument("scratch", type=Path)
    parser.add_argument("shape", choices=DRAFTS)
    parser.add_argument("--draft", help="another shape as the draft")
    parser.add_argument("--divisor", type=int, default=1)
    parser.add_argument("--format", default="int8")
    parser.add_argument("--calibration", default="built-in")
    parser.add_argument("--acceptance", type=float, default=0.75)
    parser.add_argument("--gamma", type=int, nargs="+", default=[3, 5, 7])
    parser.add_argument("--tokens", type=int, default=24)
    options, record = begin(parser)
    draft = options.draft or DRAFTS[options.shape]
    shapes = [shape for shape in (options.shape, draft) if shape is not None]
    folders = [options.scratch / shape for shape in shapes]
    pair = options.scratch / "-".join([*shapes, options.format])
    found: dict[str, Any] = {"shape": options.shape, "draft": draft, "format": options.format}
    if options.what == "make":
        made = zip(folders, shapes, (options.divisor, 1), strict=False)
        found["models"] = [make(*each) for each in made]
    elif options.what == "export":
        found["calibration"] = options.calibration
        found |= export(folders, pair, options.format, options.calibration)
    else:
        found |= run(pair, options)
    write_result(options, record, **found)


if __name__ == "__main__":
    main()
