"""Graphs of one operator, and rows to call it with."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir

from edgespec.device.kernels import installed_kernels
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.quantization.hadamard import hadamard

MANY = 40  # rows: more than one thread prepares, and not a multiple of a tile


def has_kernel(function) -> bool:
    """Whether the installed kernels have one for this function; older ones lack newer functions."""
    kernels = installed_kernels()
    if kernels is None:
        return False
    library = kernels.library.with_stem(f"{kernels.library.stem}_{kernels.target}")
    return function.name.encode() in library.read_bytes()


def one_call(function, inputs, fixed, attributes) -> ir.Model:
    g = Graph("one call", None)
    values = {
        name: g.input(name, value.dtype, [None] * value.ndim) for name, value in inputs.items()
    }
    values |= {name: g.constant(value, value.dtype) for name, value in fixed.items()}
    results = g.call(function, *(values[name] for name in function.inputs), **attributes)
    add_outputs(g, function, results)
    return g.model()


def add_outputs(g, function, results):
    """Makes an operator's results the outputs of a graph."""
    for result, tensor in zip(results, function.operator.outputs, strict=True):
        g.output(f"result {tensor.name}", result, tensor.dtype.numpy(), [None] * len(tensor.shape))


def rows_of(rng, count, width):
    """Rows of very different sizes, one of them all zeros."""
    rows = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    rows[count // 2] = 0
    return rows.astype(np.float32)


def int4_weights_of(rng, width, out):
    groups = width // GROUP
    return {
        "weights": rng.integers(0, 256, (out, groups, GROUP // 2), dtype=np.uint8),
        "scale": rng.uniform(1e-4, 1e-2, (out, groups)).astype(np.float16),
        "minimum": rng.normal(0, 0.05, (out, groups)).astype(np.float16),
    }


def int4_int8_weights_of(rng, width, out):
    groups = width // GROUP
    steps = rng.integers(0, 17, (out, groups), dtype=np.uint8)
    offsets = rng.integers(-127, 128 - 15 * steps.astype(np.int64))
    return {
        "weights": rng.integers(0, 256, (out, groups, GROUP // 2), dtype=np.uint8),
        "steps": steps,
        "offsets": offsets.astype(np.int8),
        "scale": rng.uniform(1e-4, 1e-2, out).astype(np.float32),
    }


def int8_group_weights_of(rng, width, out):
    groups = width // GROUP
    return {
        "weights": rng.integers(0, 256, (out, groups, GROUP), dtype=np.uint8),
        "scale": rng.uniform(1e-4, 1e-2, (out, groups)).astype(np.float16),
    }


def bfloat16_weights_of(rng, width, out):
    return {"weights": rng.normal(0, 0.1, (out, width)).astype(ml_dtypes.bfloat16)}


def weights_of(rng, width, out):
    return {
        "weights": rng.integers(-128, 128, (width, out), dtype=np.int8),
        "scale": rng.uniform(1e-4, 1e-2, out).astype(np.float32),
    }


def head_of(rng, width, out, block):
    return {
        "norm": rng.uniform(0.5, 2, width).astype(np.float32),
        "hadamard": hadamard(block),
        "table": rng.integers(-128, 128, (out, width), dtype=np.int8),
        "scale": rng.uniform(1e-4, 1e-2, out).astype(np.float32),
    }
