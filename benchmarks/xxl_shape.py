"""T5-XXL and T5-small with random weights: for memory and time, the texts mean nothing.

    python benchmarks/xxl_shape.py make  SCRATCH              # 22 GB: sharded bf16 safetensors
    python benchmarks/xxl_shape.py export SCRATCH --format int8   # peak memory of `edgespec export`
    edgespec inspect SCRATCH/pair-int8 --measure
    edgespec bench SCRATCH/pair-int8 --acceptance 0.75 --gamma 7 -n 24

`--divisor 4` divides all widths by four, for a small machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from record import describe, environment

SHARD_BYTES = 2 * 10**9
SHAPES = {
    "xxl": {"d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64},
    "small": {"d_model": 512, "d_ff": 1024, "num_layers": 8, "num_heads": 6},
}


def config(shape: str, divisor: int) -> dict[str, Any]:
    sizes = dict(SHAPES[shape])
    for width in ("d_model", "d_ff", "num_heads"):
        sizes[width] = max(1, sizes[width] // divisor)
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        **sizes,
        "d_kv": 64,
        "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "is_encoder_decoder": True,
    }


def tensors(sizes: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor."""
    width, ff_width, vocabulary = sizes["d_model"], sizes["d_ff"], sizes["vocab_size"]
    heads = sizes["num_heads"] * sizes["d_kv"]
    yield "shared.weight", (vocabulary, width)
    yield "lm_head.weight", (vocabulary, width)
    for stack in ("encoder", "decoder"):
        attentions = ("SelfAttention", "EncDecAttention")[: 1 if stack == "encoder" else 2]
        for layer in range(sizes["num_layers"]):
            block = f"{stack}.block.{layer}.layer"
            for index, attention in enumerate(attentions):
                yield f"{block}.{index}.layer_norm.weight", (width,)
                for part in "qkv":
                    yield f"{block}.{index}.{attention}.{part}.weight", (heads, width)
                yield f"{block}.{index}.{attention}.o.weight", (width, heads)
            if layer == 0:
                table = f"{block}.0.SelfAttention.relative_attention_bias.weight"
                yield table, (sizes["relative_attention_num_buckets"], sizes["num_heads"])
            dense = f"{block}.{len(attentions)}.DenseReluDense"
            yield f"{block}.{len(attentions)}.layer_norm.weight", (width,)
            yield f"{dense}.wi_0.weight", (ff_width, width)
            yield f"{dense}.wi_1.weight", (ff_width, width)
            yield f"{dense}.wo.weight", (width, ff_width)
        yield f"{stack}.final_layer_norm.weight", (width,)


def make(folder: Path, shape: str, divisor: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = config(shape, divisor)
    # One block of random numbers, rotated differently for each tensor: 11 billion draws would take
    # longer than the measurement.
    block = np.random.default_rng(0).standard_normal(2**24, np.float32) / np.float32(16)
    shard: dict[str, np.ndarray] = {}
    weight_map: dict[str, str] = {}
    shards = 0

    def flush() -> None:
        nonlocal shard, shards
        shards += 1
        name = f"model-{shards:05d}.safetensors"
        save_file(shard, folder / name)
        weight_map.update(dict.fromkeys(shard, name))
        shard = {}

    for number, (name, tensor_shape) in enumerate(tensors(sizes)):
        count = int(np.prod(tensor_shape))
        if len(tensor_shape) == 1:
            values = np.ones(count, np.float32)
        else:
            values = np.resize(np.roll(block, 7919 * number), count) * tensor_shape[-1] ** -0.5
        shard[name] = values.astype(ml_dtypes.bfloat16).reshape(tensor_shape)
        if sum(array.nbytes for array in shard.values()) > SHARD_BYTES:
            flush()
    flush()
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    listing = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listing))
    (folder / "config.json").write_text(json.dumps(sizes, indent=2))
    pair = Path(__file__).parents[1] / "models" / "en-de-target"
    (folder / "tokenizer.json").write_bytes((pair / "tokenizer.json").read_bytes())
    print(f"{folder}: {size / 1e9:.1f} GB in {shards} shards")


def export(scratch: Path, format_: str) -> dict[str, Any]:
    """Runs `edgespec export` in a process of its own and reports its peak memory."""
    command = [
        *(sys.executable, "-m", "edgespec", "export", str(scratch / "xxl"), str(scratch / "small")),
        *("-o", str(scratch / f"pair-{format_}"), "--target-format", format_),
        *("--draft-format", format_, "--no-measure", "--force"),
    ]
    began = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
    row = {"format": format_, "seconds": round(seconds, 1), "peak_GB": round(peak, 2)}
    print(f"{format_}: {seconds:.0f} s, peak memory {peak:.2f} GB (mapped files included)")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "export"])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--divisor", type=int, default=1)
    parser.add_argument("--format", default="int8")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record = environment(2)
    print(describe(record))
    if options.what == "make":
        for shape in SHAPES:
            make(options.scratch / shape, shape, options.divisor if shape == "xxl" else 1)
        return
    row = export(options.scratch, options.format)
    if options.json:
        options.json.write_text(json.dumps({"environment": record, **row}, indent=2) + "\n")


if __name__ == "__main__":
    main()
