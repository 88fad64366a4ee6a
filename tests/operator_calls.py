"""Graphs of one operator, and rows to call it with."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int8_ops import INT8_HEAD


def one_call(function, inputs, fixed, attributes) -> ir.Model:
    g = Graph("one call", None)
    values = {
        name: g.input(name, value.dtype, [None] * value.ndim) for name, value in inputs.items()
    }
    values |= {name: g.constant(value, value.dtype) for name, value in fixed.items()}
    results = g.call(function, *(values[name] for name in function.inputs), **attributes)
    types = [np.float32, np.int64, np.float32, np.float32]
    types = types if function is INT8_HEAD else [np.float32] * 3
    for index, (result, dtype) in enumerate(zip(results, types, strict=False)):
        rank = 4 if index and function is not INT8_HEAD else 2
        g.output(f"result {index}", result, dtype, [None] * rank)
    return g.model()


def rows_of(rng, count, width):
    """Rows of very different sizes, one of them all zeros."""
    rows = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    rows[count // 2] = 0
    return rows.astype(np.float32)
