"""Graphs of one operator, and rows to call it with."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.operator_schema import OPERATORS


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
    for result, tensor in zip(results, OPERATORS[function.name].outputs, strict=True):
        g.output(f"result {tensor.name}", result, tensor.dtype.numpy(), [None] * len(tensor.shape))


def rows_of(rng, count, width):
    """Rows of very different sizes, one of them all zeros."""
    rows = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    rows[count // 2] = 0
    return rows.astype(np.float32)
