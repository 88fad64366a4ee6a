"""A pass to the operators of opset 21, the newest that the compilers of NPUs take.

Newer operators become several older ones. A graph with others than those in `TAKEN` is refused: it
would run on the processor in part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgespec.errors import EdgespecError

__all__ = ["OPSET", "TAKEN", "to_standard_operators"]

OPSET = 21
IR_VERSION = 10
LEAST = 2e-3  # that a row is divided by: a row of zeros stays one
PARTS = 16.0  # of the largest number of a row, see `_rms_norm`
TAKEN = frozenset(
    "Abs Add Cast Concat DequantizeLinear Div Exp Gather Gelu Gemm Identity LayerNormalization"
    " MatMul Max Min Mul Pow QuantizeLinear ReduceMax ReduceMean Relu Reshape Shape Sigmoid Slice"
    " Softmax Split Sqrt Sub Tanh Transpose Unsqueeze Where".split()
)


def to_standard_operators(model: ir.Model, label: str) -> None:
    """Replaces newer operators, in place.

    Args:
        label: of the model, for messages.

    Raises:
        EdgespecError: an operator that NPUs do not take is left.
    """
    for node in list(model.graph):
        if node.op_type in REPLACED:
            tape = ir.tape.Tape()
            result = REPLACED[node.op_type](tape, node, model.graph)
            result.shape, result.type = node.outputs[0].shape, node.outputs[0].type
            ir.convenience.replace_nodes_and_values(
                model.graph, node, [node], tape.nodes, node.outputs, [result]
            )
    others = sorted({node.op_type for node in model.graph} - TAKEN)
    if others:
        raise EdgespecError(
            f"{label} has blocks with {', '.join(others)}, operators that NPUs do not take; "
            "leave --for npu out"
        )
    model.ir_version = IR_VERSION
    model.graph.opset_imports.clear()
    model.graph.opset_imports[""] = OPSET


def _rms_norm(tape: ir.tape.Tape, node: ir.Node, graph: ir.Graph) -> ir.Value:
    """z / (16 · √(mean(y²) + ε / max²)) · weight, where max is the largest |x| of a row,
    y = x / max and z = 16 · y.

    Squares of x itself are beyond 16 bits from 256 on, and numbers of some models are larger.
    Qualcomm's NPU divides by multiplying with the reciprocal, and takes numbers below 6e-5 for 0:
    so max, which is 22 500 in SmolLM2, is divided by 16 first.
    """
    x, weight = node.inputs
    epsilon = node.attributes["epsilon"].as_float()
    axes = _constant(graph, "axes", -1, np.int64)
    part = _constant(graph, "part", 1 / PARTS, np.float32)
    largest = tape.op("ReduceMax", [tape.op("Abs", [x]), axes], {"keepdims": 1})
    largest = tape.op("Max", [largest, _constant(graph, "least", LEAST, np.float32)])
    largest = tape.op("Mul", [largest, part])
    z = tape.op("Div", [x, largest])
    y = tape.op("Mul", [z, part])
    root = tape.op("Div", [_constant(graph, "epsilon", epsilon**0.5 / PARTS, np.float32), largest])
    mean = tape.op("ReduceMean", [tape.op("Mul", [y, y]), axes], {"keepdims": 1})
    deviation = tape.op("Sqrt", [tape.op("Add", [mean, tape.op("Mul", [root, root])])])
    deviation = tape.op("Mul", [deviation, _constant(graph, "parts", PARTS, np.float32)])
    return tape.op("Mul", [tape.op("Div", [z, deviation]), weight])


def _sum(tape: ir.tape.Tape, node: ir.Node, graph: ir.Graph) -> ir.Value:
    total, *others = node.inputs
    for value in others:
        total = tape.op("Add", [total, value])
    assert total is not None, "a sum of something"
    return total


def _constant(graph: ir.Graph, name: str, number: float, dtype: type) -> ir.Value:
    """[1]; one of equal numbers serves all nodes."""
    name = f"standard.{name}.{number:.9g}"
    if name not in graph.initializers:
        tensor = ir.tensor(np.array([number], dtype), name=name)
        shape, kind = ir.Shape([1]), ir.TensorType(tensor.dtype)
        value = ir.Value(name=name, shape=shape, type=kind, const_value=tensor)
        graph.register_initializer(value)
    return graph.initializers[name]


REPLACED: dict[str, Callable[[ir.tape.Tape, ir.Node, ir.Graph], ir.Value]] = {
    "RMSNormalization": _rms_norm,
    "Sum": _sum,
}
