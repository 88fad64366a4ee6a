"""Checkpoints as other programs quantize them, packed bit by bit as their layouts say.

Each layout takes a generator and a shape, draws codes, scales and zero points, and gives the
tensors of the file and the matrix that they stand for. The matrix is computed from the numbers
drawn, never from what was packed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

CODES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "float8_e4m3fn": "F8_E4M3",
}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
NF4 = np.array(
    [
        *(-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0),
        *(0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0),
    ],
    np.float32,
)


@dataclass
class Quantized:
    """A matrix and the tensors that a file has instead of it, by the ends of their names."""

    parts: dict[str, np.ndarray]
    matrix: np.ndarray


@dataclass(frozen=True)
class Layout:
    """How one program writes a matrix.

    Attributes:
        draw: (generator, out, in) to a matrix.
        config: the key of config.json, or None.
        files: of settings beside config.json, by their names.
    """

    draw: Callable[[np.random.Generator, int, int], Quantized]
    config: dict[str, Any] | None
    key: str = "quantization_config"
    files: dict[str, Any] = field(default_factory=dict)


def packed(codes: np.ndarray, bits: int, dtype: Any = np.int32) -> np.ndarray:
    """Codes [rows, n] as words of 32 bits along the last axis, the first in the lowest bits."""
    rows = []
    for row in codes.tolist():
        stream = sum(int(code) << (bits * index) for index, code in enumerate(row))
        words = -(-len(row) * bits // 32)
        rows.append([stream >> (32 * index) & 0xFFFFFFFF for index in range(words)])
    return np.array(rows, np.uint32).view(dtype)


def scales_of(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, bits: int = 4
) -> np.ndarray:
    """Steps, so that weights of any number of bits are about as large."""
    return (rng.uniform(0.5, 2, shape) * 0.32 / 2**bits).astype(dtype)


def awq(rng, out, width, group=32) -> Quantized:
    codes = rng.integers(0, 16, (width, out))
    zeros = rng.integers(0, 16, (width // group, out))
    scales = scales_of(rng, zeros.shape, np.float16)
    spread = np.repeat(np.arange(width // group), group)
    matrix = (codes - zeros[spread]).astype(np.float32) * scales[spread].astype(np.float32)

    def words(numbers):
        order = [8 * (i // 8) + AWQ_ORDER[i % 8] for i in range(numbers.shape[1])]
        return packed(numbers[:, order], 4)

    return Quantized({"qweight": words(codes), "qzeros": words(zeros), "scales": scales}, matrix.T)


def gptq(rng, out, width, *, bits=4, group=32, added=1, act_order=False, sym=False) -> Quantized:
    groups = width // group
    codes = rng.integers(0, 2**bits, (width, out))
    zeros = rng.integers(added, 2**bits, (groups, out))
    if sym:
        zeros[:] = 2 ** (bits - 1)
    scales = scales_of(rng, zeros.shape, np.float16, bits)
    g_idx = np.arange(width) // group
    if act_order:
        g_idx = rng.permutation(g_idx)
    matrix = (codes - zeros[g_idx]).astype(np.float32) * scales[g_idx].astype(np.float32)
    parts = {
        "qweight": np.ascontiguousarray(packed(codes.T, bits).T),
        "qzeros": packed(zeros - added, bits),
        "scales": scales,
        "g_idx": g_idx.astype(np.int32),
    }
    return Quantized(parts, matrix.T)


def float8(rng, out, width, *, scale, name="weight_scale_inv", dtype=np.float32) -> Quantized:
    """FP8; `scale` is "tensor", "channel" or the size of a square block."""
    codes = rng.normal(0, 8, (out, width)).astype(ml_dtypes.float8_e4m3fn)
    shape = {"tensor": (1, 1), "channel": (out, 1)}.get(scale)
    shape = shape or (-(-out // scale), -(-width // scale))
    scales = (rng.uniform(0.5, 2, shape) * 0.01).astype(dtype)
    wide = scales.astype(np.float32)
    if isinstance(scale, int):
        wide = np.repeat(np.repeat(wide, scale, 0), scale, 1)[:out, :width]
    matrix = codes.astype(np.float32) * wide
    stored = scales.reshape(()) if scale == "tensor" else scales
    return Quantized({"weight": codes, name: stored}, matrix)


def whole_numbers(rng, out, width, *, zeros=False) -> Quantized:
    """compressed-tensors' W8A8: int8 with a scale for each row."""
    codes = rng.integers(-128, 128, (out, width)).astype(np.int8)
    scales = (rng.uniform(0.5, 2, (out, 1)) * 0.001).astype(ml_dtypes.bfloat16)
    parts = {"weight": codes, "weight_scale": scales}
    middle = np.zeros((out, 1), np.int8)
    if zeros:
        parts["weight_zero_point"] = middle = rng.integers(-9, 9, (out, 1)).astype(np.int8)
    shifted = codes.astype(np.float32) - middle.astype(np.float32)
    return Quantized(parts, shifted * scales.astype(np.float32))


def pack_quantized(rng, out, width, *, bits=4, group=32, zeros=False) -> Quantized:
    groups, half = width // group, 2 ** (bits - 1)
    codes = rng.integers(-half, half, (out, width))
    scales = scales_of(rng, (out, groups), ml_dtypes.bfloat16, bits)
    middle = np.zeros((out, groups), np.int64)
    parts = {
        "weight_packed": packed(codes + half, bits),
        "weight_scale": scales,
        "weight_shape": np.array([out, width], np.int64),
    }
    if zeros:
        middle = rng.integers(-half, half, (out, groups))
        parts["weight_zero_point"] = np.ascontiguousarray(packed(middle.T + half, bits).T)
    shifted = (codes - np.repeat(middle, group, 1)).astype(np.float32)
    return Quantized(parts, shifted * np.repeat(scales.astype(np.float32), group, 1))


def four_bits(rng, out, width, *, nested, kind="nf4", block=64) -> Quantized:
    """bitsandbytes' nf4 and fp4: blocks run through the rows, the last may be cut off."""
    count = out * width
    codes = rng.integers(0, 16, count)
    blocks = -(-count // block)
    state: dict[str, Any] = {
        "quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": [out, width],
    }  # fmt: skip
    parts = {"weight.quant_map": NF4}
    if nested:
        table = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
        index = rng.integers(0, 256, blocks).astype(np.uint8)
        largest = rng.uniform(0.01, 0.02, -(-blocks // 4)).astype(np.float32)
        offset = 0.05
        absmax = table[index] * np.repeat(largest, 4)[:blocks] + np.float32(offset)
        parts |= {
            "weight.absmax": index,
            "weight.nested_absmax": largest,
            "weight.nested_quant_map": table,
        }
        state |= {"nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": offset}
    else:
        absmax = rng.uniform(0.02, 0.1, blocks).astype(np.float32)
        parts["weight.absmax"] = absmax
    padded = [*codes.tolist(), *[0] * (count % 2)]
    data = [high << 4 | low for high, low in zip(padded[::2], padded[1::2], strict=True)]
    parts["weight"] = np.array(data, np.uint8).reshape(-1, 1)
    text = json.dumps(state).encode()
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = np.frombuffer(text, np.uint8)
    matrix = NF4[codes] * np.repeat(absmax, block)[:count]
    return Quantized(parts, matrix.reshape(out, width))


def eight_bits(rng, out, width) -> Quantized:
    """bitsandbytes' LLM.int8."""
    codes = rng.integers(-127, 128, (out, width)).astype(np.int8)
    largest = rng.uniform(0.1, 0.3, out).astype(np.float32)
    parts = {"weight": codes, "SCB": largest, "weight_format": np.array(0, np.uint8)}
    inverse = np.float32(7.874015718698502e-3)  # 1 / 127, as the library rounds it
    return Quantized(parts, codes.astype(np.float32) * largest[:, None] * inverse)


def mlx(rng, out, width, *, bits=4, group=32, dtype=np.float16) -> Quantized:
    codes = rng.integers(0, 2**bits, (out, width))
    scales = scales_of(rng, (out, width // group), dtype, bits)
    biases = (-scales.astype(np.float32) * rng.uniform(0, 2**bits)).astype(dtype)
    parts = {"weight": packed(codes, bits, np.uint32), "scales": scales, "biases": biases}
    wide = [np.repeat(x.astype(np.float32), group, 1) for x in (scales, biases)]
    return Quantized(parts, codes.astype(np.float32) * wide[0] + wide[1])


def write_quantized(
    plain: Path,
    folder: Path,
    layout: Layout,
    *,
    seed: int = 0,
    only: str = "_proj.weight",
    prefix: str = "",
) -> dict[str, np.ndarray]:
    """Writes a checkpoint with new matrices in a layout; returns all of its tensors, unquantized.

    Args:
        plain: a checkpoint with the same shapes, whose other tensors are kept.
        only: the end of the names of matrices that are quantized.
        prefix: of the names in the file.
    """
    shutil.copytree(plain, folder)
    rng = np.random.default_rng(seed)
    tensors = load_file(plain / "model.safetensors")
    stored: dict[str, np.ndarray] = {}
    for name, tensor in list(tensors.items()):
        if not name.endswith(only):
            stored[prefix + name] = tensor
            continue
        drawn = layout.draw(rng, *tensor.shape)
        tensors[name] = np.ascontiguousarray(drawn.matrix)
        module = prefix + name.removesuffix(".weight")
        stored |= {f"{module}.{part}": value for part, value in drawn.parts.items()}
    write_tensors(folder / "model.safetensors", stored)
    config = json.loads((folder / "config.json").read_text())
    if layout.config is not None:
        config[layout.key] = layout.config
    (folder / "config.json").write_text(json.dumps(config))
    for name, settings in layout.files.items():
        (folder / name).write_text(json.dumps(settings))
    return tensors


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """A safetensors file, byte by byte: the library's numpy has no float8."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        start = len(data)
        data += tensor.tobytes()
        header[name] = {
            "dtype": CODES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_plain(plain: Path, folder: Path, tensors: dict[str, np.ndarray]) -> Path:
    """The same checkpoint with float32 weights, which transformers reads."""
    shutil.copytree(plain, folder)
    save_file(tensors, folder / "model.safetensors")
    return folder
