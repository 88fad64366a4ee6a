"""The shapes of shapes.py in llama.cpp: tokens per second without a draft, for comparison.

    python -m venv .llama && .llama/bin/pip install xllamacpp==2026.10.11549
    python benchmarks/shapes_llama_cpp.py SCRATCH qwen3.5-2b --type Q8_0 --python .llama/bin/python

The random checkpoint that `shapes.py make` wrote becomes a GGUF file, and llama.cpp generates from
16 random tokens. It has no draft for these shapes. Heads and norms are written as they lie: texts
depend on the order of weights, times do not, so this file serves nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from safetensors import safe_open

from record import begin, write_result

ARCHITECTURES = {
    "qwen3_5_text": ("qwen35", gguf.MODEL_ARCH.QWEN35),
    "gemma4_text": ("gemma4", gguf.MODEL_ARCH.GEMMA4),
}
CONTEXT = 4096
PIECES = 64  # of a large table, which is rounded piece by piece
NEVER = 1e30  # the divisor of a rotary frequency that does not turn

# Run by the environment that holds xllamacpp: prints the timings of each repeat.
TIMING = """
import json, random, sys
import xllamacpp
path, repeats, tokens, threads = sys.argv[1], *map(int, sys.argv[2:])
options = xllamacpp.CommonParams()
options.model.path, options.n_ctx, options.warmup = path, 512, False
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(options)
prompt = [random.Random(0).randrange(10, 40000) for _ in range(16)]
for _ in range(repeats):
    answer = server.handle_completions({"prompt": prompt, "n_predict": tokens, "temperature": 0,
                                        "ignore_eos": True, "cache_prompt": False})
    answer = json.loads(answer) if isinstance(answer, str) else answer
    print("timings", json.dumps(answer["timings"]))
"""


def write_gguf(folder: Path, path: Path, kind: gguf.GGMLQuantizationType) -> None:
    """Writes a checkpoint of `shapes.py make` as a GGUF file with matrices of this kind."""
    config = json.loads((folder / "config.json").read_text())
    name, architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, name)
    for key, value in _settings(config).items():
        _add(writer, f"{name}.{key}", value)
    _add_vocabulary(writer, config["vocab_size"])
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for tensor_name, tensor in _tensors(folder):
        found = _gguf_name(names, tensor_name)
        if tensor.ndim == 1 or "conv1d" in found:
            by_channel = tensor.flatten(0, 1) if tensor.ndim == 3 else tensor
            writer.add_tensor(found, by_channel.float().numpy())
        else:
            pieces = [quantize(part.float().numpy(), kind) for part in tensor.chunk(PIECES)]
            writer.add_tensor(found, np.concatenate(pieces), raw_dtype=kind)
    if name == "gemma4":  # a quarter of the dimensions of full attention turns
        turning = np.array([1.0] * 64 + [NEVER] * 192, np.float32)
        writer.add_tensor("rope_freqs.weight", turning)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """The keys of the file that describe the model, without the architecture's name."""
    layers = config["num_hidden_layers"]
    common = {
        "block_count": layers,
        "context_length": CONTEXT,
        "embedding_length": config["hidden_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    describe = _qwen_settings if config["model_type"] == "qwen3_5_text" else _gemma_settings
    return common | describe(config, layers)


def _qwen_settings(config: dict[str, Any], _layers: int) -> dict[str, Any]:
    """`shapes.py make` leaves out what all sizes share: heads of 128, convolutions of 4 taps."""
    size, heads = 128, config["linear_num_value_heads"]
    return {
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "rope.freq_base": 1e7,
        "rope.dimension_count": config["head_dim"] // 4,
        "rope.dimension_sections": [11, 11, 10, 0],
        "ssm.conv_kernel": 4,
        "ssm.state_size": size,
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": heads,
        "ssm.inner_size": size * heads,
        "full_attention_interval": 4,
    }


def _gemma_settings(config: dict[str, Any], layers: int) -> dict[str, Any]:
    shared, wide = config["num_kv_shared_layers"], config["intermediate_size"]
    full, windowed = config["global_head_dim"], config["head_dim"]
    return {
        "feed_forward_length": [wide * (1 + (i >= layers - shared)) for i in range(layers)],
        "attention.head_count_kv": [config["num_key_value_heads"]] * layers,
        "attention.key_length": full,
        "attention.value_length": full,
        "attention.key_length_swa": windowed,
        "attention.value_length_swa": windowed,
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": [
            kind == "sliding_attention" for kind in config["layer_types"]
        ],
        "attention.shared_kv_layers": shared,
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "final_logit_softcapping": 30.0,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": full,
        "rope.dimension_count_swa": windowed,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: int | float | list[Any]) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """Made-up tokens: prompts and answers are token ids."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"t{token}" for token in range(size)])
    writer.add_token_types([1] * size)
    writer.add_token_merges(["t 1"])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as shard:
            for name in shard.keys():  # noqa: SIM118 - no mapping
                tensor = shard.get_tensor(name)
                # A decay is negative there, and stored as a logarithm here.
                yield name, -torch.ones_like(tensor) if name.endswith("A_log") else tensor


def _gguf_name(names: gguf.TensorNameMap, name: str) -> str:
    """llama.cpp's name of a tensor."""
    if name.endswith("dt_bias"):
        return f"{names.get_name(name.removesuffix('dt_bias') + 'dt_proj')}.bias"
    if name.endswith("layer_scalar"):
        return f"{names.get_name(name)}.weight"
    found = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if found is None:
        raise SystemExit(f"llama.cpp has no name for {name}")
    return str(found)


def time_llama_cpp(python: Path, path: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """llama.cpp's own timings of each repeat."""
    numbers = [str(options.repeats), str(options.tokens), str(options.threads)]
    printed = subprocess.run(
        [python, "-c", TIMING, path, *numbers], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in printed.splitlines() if line.startswith("timings ")]
    return [json.loads(line.removeprefix("timings ")) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("shape", choices=("qwen3.5-2b", "gemma4-e2b"))
    parser.add_argument("--type", default="Q8_0", help="of matrices: Q8_0 or Q4_0")
    parser.add_argument(
        "--python", type=Path, required=True, help="of the environment of xllamacpp"
    )
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=2)
    options, record = begin(parser)
    path = options.scratch / f"{options.shape}-{options.type}.gguf"
    if not path.exists():
        kind = gguf.GGMLQuantizationType[options.type]
        partial = path.with_suffix(".partial")
        write_gguf(options.scratch / options.shape, partial, kind)
        partial.rename(path)
    found = time_llama_cpp(options.python, path, options)
    for timings in found:
        print(f"{options.shape} {options.type}: {timings['predicted_per_second']:.2f} tokens/s")
    write_result(options, record, shape=options.shape, type=options.type, repeats=found)


if __name__ == "__main__":
    main()
