"""Claim: a node that ONNX would refuse fails when it is emitted, not when a session loads it."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec_export.onnx_graph.graph import Graph


@pytest.fixture
def graph():
    return Graph("test", None)


@pytest.fixture
def x(graph):
    return graph.input("x", np.float32, ["m", 4])


def test_an_operator_that_onnx_does_not_have_is_an_error(graph):
    with pytest.raises(AttributeError, match="has no operator 'MatMull'"):
        _ = graph.op.MatMull


def test_an_attribute_that_the_operator_does_not_have_is_an_error(graph, x):
    with pytest.raises(TypeError, match="Gather has no attribute 'axes'"):
        graph.op.Gather(x, graph.ints(0), axes=0)


def test_too_few_inputs_are_an_error(graph, x):
    with pytest.raises(TypeError, match="MatMul takes 2 to 2 inputs, not 1"):
        graph.op.MatMul(x)


def test_an_attribute_that_a_contrib_operator_does_not_have_is_an_error(graph, x):
    with pytest.raises(TypeError, match="MultiHeadAttention has no attribute 'heads'"):
        graph.contrib("MultiHeadAttention", [x, x, x], outputs=1, heads=2)


def test_a_block_is_the_nodes_that_were_emitted_inside(graph, x):
    before = graph.op.Neg(x)
    with graph.block("layer.0"):
        y = graph.op.Add(x, graph.op.Relu(before))
    graph.op.Neg(y)
    (block,) = graph.blocks
    assert block.name == "layer.0"
    assert [node.op_type for node in block.nodes] == ["Relu", "Add"]
