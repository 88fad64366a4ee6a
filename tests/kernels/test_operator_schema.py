"""Claim: the table of operators is what the kernels are built from and what the exporter emits."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.operator_parts import CLOSING, POST_NORM_NAMES, PROJECTION_BIAS
from edgespec_export.onnx_graph.operator_table import OPERATORS
from edgespec_export.operators.int8_ops import INT8_MATMUL
from edgespec_export.passes.fuse_blocks import FUSED_BLOCKS

ROOT = Path(__file__).parent.parent.parent
HEADER = ROOT / "runtimes/kernels/src/schema/operators.inc"
GENERATOR = ROOT / "scripts/generate_operator_header.py"


def test_the_header_of_the_kernels_is_generated_from_the_table():
    """If this fails: `make operator-header`."""
    made = subprocess.run([sys.executable, GENERATOR], capture_output=True, text=True, check=True)
    assert made.stdout == HEADER.read_text()


def types(tensors):
    return [tensor.dtype for tensor in tensors]


@pytest.mark.parametrize("fused", FUSED_BLOCKS, ids=lambda fused: fused.whole.name)
def test_a_fused_block_takes_what_its_operators_take(fused):
    block, opening, middle, closing = (
        OPERATORS[function.name]
        for function in (fused.whole, fused.opening, fused.inner, fused.closing)
    )
    after = OPERATORS[fused.post_norm.name] if fused.post_norm else None
    bias = PROJECTION_BIAS.inputs if fused.has_bias else ()
    parts = (*opening.inputs, *bias, *middle.inputs[fused.columns :], *closing.inputs[1:])
    parts += after.inputs[1:] if after else ()
    assert types(block.inputs) == types(parts)
    assert types(block.outputs) == types(middle.outputs)
    attributes = {*opening.attributes, *middle.attributes}
    attributes |= {replace(a, name=CLOSING[a.name]) for a in closing.attributes}
    attributes |= {
        replace(a, name=POST_NORM_NAMES[a.name]) for a in (after.attributes if after else ())
    }
    assert {a for a in block.attributes if a.name != "widths"} == attributes


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_names_and_symbols_are_ones_that_c_plus_plus_can_have(operator):
    tensors = (*operator.inputs, *operator.outputs)
    for group in (operator.inputs, operator.outputs, operator.attributes):
        names = [entry.name for entry in group]
        assert len(set(names)) == len(names)
        assert all(name.isidentifier() for name in names)
    assert all(size == 1 or str(size).isidentifier() for t in tensors for size in t.shape)
    assert all(len(tensor.shape) <= 4 for tensor in tensors)


def product(x, weights, scale):
    values = zip(("x", "weights", "scale"), (x, weights, scale), strict=True)
    return [ir.val(name, dtype=dtype, shape=shape) for name, (dtype, shape) in values]


FLOAT, INT8 = ir.DataType.FLOAT, ir.DataType.INT8
GOOD = ((FLOAT, ["rows", 64]), (INT8, [64, 48]), (FLOAT, [48]))


def test_a_call_that_fits_the_table_passes():
    OPERATORS["Int8MatMul"].check_call(product(*GOOD))
    OPERATORS["Int8MatMul"].check_call([ir.val(name) for name in ("x", "weights", "scale")])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (product(*GOOD)[:2], "takes 3 inputs and is given 2"),
        (product((FLOAT, [5, 64]), (FLOAT, [64, 48]), (FLOAT, [48])), "weights is FLOAT, not INT8"),
        (product((FLOAT, [64]), *GOOD[1:]), r"x \[64\] should be \[m, k\]"),
        (
            product((FLOAT, [5, 63]), *GOOD[1:]),
            r"weights \[64,48\] and x \[5,63\] differ in k",
        ),
    ],
)
def test_a_call_that_does_not_fit_is_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        OPERATORS["Int8MatMul"].check_call(inputs)


def test_the_graph_builder_checks_its_calls():
    g = Graph("one call", None)
    x = g.input("x", np.float32, ["rows", 64])
    with pytest.raises(ValueError, match="takes 3 inputs and is given 1"):
        g.call(INT8_MATMUL, x)
