"""A pass that leaves to the host what an NPU does badly: lookups, and what only positions decide.

Compilers of NPUs take few integers, and Qualcomm's looks nothing up in a table of float32. What
depends on inputs such as the past's length, and on nothing else that a call brings, becomes a graph
of its own: masks, rotary angles, biases of distances. So do the rows of tokens in tables. A
processor runs it before each call. What it returns are inputs of the other graph.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir
from onnx_ir.passes import common

__all__ = ["split_host"]

LOOKUPS = ("Gather", "Cast")


def split_host(
    model: ir.Model, of_positions: Collection[str], of_tokens: Collection[str]
) -> tuple[ir.Model, ir.Model]:
    """The graph without what is left to the host, and the graph that computes that.

    Args:
        model: its inputs and outputs have fixed shapes.
        of_positions: names of inputs; what depends on these alone is left to the host.
        of_tokens: names of inputs; what is looked up by these alone is left to the host, too.

    Returns:
        Two models. What the second returns are inputs of the first, by the same names.
    """
    # Without the propagation of values: onnx 1.23 takes those of a range for a shape.
    common.ShapeInferencePass(data_prop=False)(model)
    graph = model.graph
    own = [value for value in graph.inputs if value.name in (*of_positions, *of_tokens)]
    others = [value for value in graph.inputs if value not in own]
    hosted = _hosted(graph, [value for value in own if value.name in of_positions], own)
    given = [
        value
        for node in graph
        for value in node.outputs
        if value in hosted and any(not _is_hosted(reader, hosted) for reader, _ in value.uses())
    ]
    for number, value in enumerate(given):
        value.name = f"host.{number}"
        if value.shape is None or not value.shape.is_static():
            raise ValueError(f"{value.name} has no fixed shape: {value.shape}")
    return _part(model, [*others, *given], graph.outputs), _part(model, own, given)


def _hosted(
    graph: ir.Graph, positions: Collection[ir.Value], inputs: Collection[ir.Value]
) -> set[ir.Value]:
    """What is left to the host, the inputs included."""
    hosted, of_tokens = set(inputs), set(inputs) - set(positions)
    varying = set(graph.inputs)
    for node in graph:
        read = [value for value in node.inputs if value in varying]
        if not read:
            continue  # a constant: each of the two graphs has its own
        varying.update(node.outputs)
        if not hosted.issuperset(read):
            continue
        if of_tokens.isdisjoint(read):
            hosted.update(node.outputs)
        elif node.op_type in LOOKUPS or _is_discrete(node.outputs[0]):
            hosted.update(node.outputs)
            of_tokens.update(node.outputs)
    return hosted


def _is_discrete(value: ir.Value) -> bool:
    """Whether it is indices, or conditions that choose among them."""
    return value.dtype in (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)


def _is_hosted(node: ir.Node, hosted: Collection[ir.Value]) -> bool:
    return node.outputs[0] in hosted


def _part(model: ir.Model, inputs: Collection[ir.Value], outputs: Collection[ir.Value]) -> ir.Model:
    """The part of a model between some of its values."""
    part = ir.convenience.extract(model.graph, list(inputs), list(outputs))
    part.name = model.graph.name
    return ir.Model(
        part,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        metadata_props=dict(model.metadata_props),
    )
