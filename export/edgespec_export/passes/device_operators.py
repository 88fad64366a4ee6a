"""A pass for graphs that providers of devices run: standard operators of an older opset only.

Providers have kernels for the operators of a few opsets, and the newest ones only for some. So
functions are inlined, norms and rotary positions become the arithmetic that they are, and the graph
states opset 21. Nothing changes but rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from edgespec.errors import EdgespecError
from edgespec_export.passes.inline_functions import inline_functions

__all__ = ["OPSET", "device_operators"]

OPSET = 21
IR_VERSION = 10


def device_operators(model: ir.Model, label: str) -> None:
    """Rewrites a model in place.

    Args:
        label: of the model, for messages.

    Raises:
        EdgespecError: it has an operator that has no such form.
    """
    inline_functions(model)
    _rewrite(model.graph)
    common.CommonSubexpressionEliminationPass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    model.graph.opset_imports.clear()
    model.graph.opset_imports[""] = OPSET
    model.ir_version = IR_VERSION
    newer = sorted(set(_newer(model.graph)))
    if newer:
        raise EdgespecError(
            f"{label} has operators that no graph for a device has: {', '.join(newer)}; export it "
            "without --for"
        )


def _rewrite(graph: ir.Graph) -> None:
    """Rewrites a graph and those inside it: the bodies of loops and branches."""
    for node in tuple(graph):
        for inside in _graphs_in(node):
            _rewrite(inside)
        rewritten = REWRITTEN.get(node.op_type)
        if rewritten is not None:
            tape = ir.tape.Tape()
            result = rewritten(tape, node)
            made = (value for new in tape.nodes for value in new.outputs)
            for number, value in enumerate(made):  # graphs inside others share their names
                value.name = f"{node.outputs[0].name}.{number}"
            ir.convenience.replace_nodes_and_values(
                graph, node, [node], tape.nodes, list(node.outputs), [result]
            )


def _graphs_in(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()


def _rms_norm(tape: ir.tape.Tape, node: ir.Node) -> ir.Value:
    """x / √(mean(x²) + ε) · weight over the last axis."""
    x, weight = node.inputs
    epsilon = tape.op("Constant", [], {"value_float": node.attributes["epsilon"].as_float()})
    last = tape.op("Constant", [], {"value_ints": [-1]})
    mean = tape.op("ReduceMean", [tape.op("Mul", [x, x]), last], {"keepdims": 1})
    root = tape.op("Sqrt", [tape.op("Add", [mean, epsilon])])
    return tape.op("Mul", [tape.op("Div", [x, root]), weight])


def _rotary(tape: ir.tape.Tape, node: ir.Node) -> ir.Value:
    """Number i of a head and number i + size / 2 rotated by their angle; x is [1, m, width]."""
    x, cos, sin = node.inputs
    count = node.attributes["num_heads"].as_int()
    shape = tape.op("Constant", [], {"value_ints": [0, 0, count, -1]})
    axis = tape.op("Constant", [], {"value_ints": [2]})
    by_head = tape.op("Reshape", [x, shape])
    halves = tape.op_multi_out("Split", [by_head], {"axis": -1, "num_outputs": 2}, num_outputs=2)
    cos, sin = (tape.op("Unsqueeze", [angles, axis]) for angles in (cos, sin))
    products = [[tape.op("Mul", [half, part]) for part in (cos, sin)] for half in halves]
    (first_cos, first_sin), (second_cos, second_sin) = products
    first = tape.op("Sub", [first_cos, second_sin])
    second = tape.op("Add", [second_cos, first_sin])
    rotated = tape.op("Concat", [first, second], {"axis": -1})
    return tape.op("Reshape", [rotated, tape.op("Constant", [], {"value_ints": [0, 0, -1]})])


REWRITTEN: dict[str, Callable[[ir.tape.Tape, ir.Node], ir.Value]] = {
    "RMSNormalization": _rms_norm,
    "RotaryEmbedding": _rotary,
}


def _newer(graph: ir.Graph) -> Iterator[str]:
    """Operators that opset 21 lacks, or that are no standard ones."""
    for node in graph:
        try:
            onnx.defs.get_schema(node.op_type, OPSET, node.domain)
        except onnx.defs.SchemaError:
            yield node.op_type
        for inside in _graphs_in(node):
            yield from _newer(inside)
