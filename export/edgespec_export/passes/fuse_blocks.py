"""What a layer adds to its residual stream, from the norm to the sum, as one function.

Kernels for its parts would each call the session's threads and wait for them; a kernel for the
whole calls them once (docs/decisions/0018-kernels.md). Families and formats emit the parts, and
where these stand behind each other they are joined here, whatever the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import DOMAIN, Body, Function
from edgespec_export.operators.activations import GELU_GATE, RELU, SILU_GATE
from edgespec_export.operators.attention_ops import (
    BIASED_ATTENTION,
    ROTARY_ATTENTION,
    SOURCE_ATTENTION,
)
from edgespec_export.operators.int8_ops import NORMED_PRODUCT, PRODUCT, TURNED_PRODUCT

__all__ = ["fuse_blocks"]


@dataclass(frozen=True)
class FusedBlock:
    """x + closing(inner(opening(norm of x))).

    Attributes:
        whole: the function that does it all.
        columns: how many inputs of the inner one lie side by side in the opening product.
        closing: the product behind it.
    """

    whole: Function
    columns: int
    closing: Function


def _fused_block(name: str, columns: int, inner: Function, closing: Function) -> FusedBlock:
    opening = NORMED_PRODUCT
    first, last = len(opening.inputs), len(closing.inputs) - 1

    def emit(f: Body, *inputs: ir.Value) -> Sequence[ir.Value]:
        (y,) = f.call(opening, *inputs[:first])
        parts = f.columns(y, f.shape("widths"), columns) if columns > 1 else [y]
        y, *others = f.call(inner, *parts, *inputs[first:-last])
        (y,) = f.call(closing, y, *inputs[-last:])
        return [f.op.Add(inputs[0], y), *others]

    return FusedBlock(Function(name, emit), columns, closing)


# By the operator in the middle.
HALF_LAYERS = {
    inner.name: _fused_block(name, columns, inner, closing)
    for name, columns, inner, closing in (
        ("RotaryAttentionBlock", 3, ROTARY_ATTENTION, PRODUCT),
        ("BiasedAttentionBlock", 3, BIASED_ATTENTION, PRODUCT),
        ("CrossAttentionBlock", 1, SOURCE_ATTENTION, PRODUCT),
        ("SiluFeedForwardBlock", 2, SILU_GATE, TURNED_PRODUCT),
        ("GeluFeedForwardBlock", 2, GELU_GATE, TURNED_PRODUCT),
        ("ReluFeedForwardBlock", 1, RELU, TURNED_PRODUCT),
    )
}


def fuse_blocks(graph: ir.Graph, functions: dict[str, ir.Function]) -> None:
    """Joins what can be joined; adds the functions of it to `functions`, which has the parts'."""
    for node in list(graph):
        half = HALF_LAYERS.get(node.op_type) if node.domain == DOMAIN else None
        parts = half and _parts(node, half)
        if half and parts:
            _join(graph, half, parts, functions)


@dataclass(frozen=True)
class _Parts:
    opening: ir.Node
    split: ir.Node | None
    inner: ir.Node
    closing: ir.Node
    add: ir.Node


def _parts(inner: ir.Node, half: FusedBlock) -> _Parts | None:
    """What stands around an operator, if it is all that a fused block is made of."""
    split = _maker(inner.inputs[: half.columns], "Split") if half.columns > 1 else None
    opened = [split.inputs[0]] if split else inner.inputs[: half.columns]
    opening = _maker(opened, NORMED_PRODUCT.name)
    closing = _user(inner.outputs[0], half.closing.name)
    add = closing and _user(closing.outputs[0], "Add")
    if not (opening and closing and add and add.inputs[0] is opening.inputs[0]):
        return None
    if any(other.uses() for other in inner.outputs[1:]):  # it would come behind who uses them
        return None
    return _Parts(opening, split, inner, closing, add)


def _maker(values: Sequence[ir.Value | None], operator: str) -> ir.Node | None:
    """The operator whose outputs are these values, if they have no other use."""
    node = values[0].producer() if values[0] is not None else None
    if node is None or node.op_type != operator or tuple(values) != node.outputs:
        return None
    return node if all(map(_user_of, node.outputs)) else None


def _user(value: ir.Value, operator: str) -> ir.Node | None:
    """The operator that uses this value, if it has no other use."""
    node = _user_of(value)
    return node if node is not None and node.op_type == operator else None


def _user_of(value: ir.Value) -> ir.Node | None:
    users = [use.node for use in value.uses()]
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def _join(
    graph: ir.Graph, half: FusedBlock, parts: _Parts, functions: dict[str, ir.Function]
) -> None:
    whole, inner = half.whole, parts.inner
    attributes = {
        name: node.attributes[name].value
        for node in (parts.opening, inner, parts.closing)
        for name in node.attributes
    }
    if parts.split:
        widths = parts.split.inputs[1]
        assert widths is not None
        assert widths.const_value is not None
        attributes["widths"] = widths.const_value.numpy().tolist()
    if whole.name not in functions:
        functions[whole.name] = whole.built(attributes)
    inputs = [*parts.opening.inputs, *inner.inputs[half.columns :], *parts.closing.inputs[1:]]
    node = ir.node(whole.name, inputs, attributes, domain=DOMAIN, num_outputs=whole.outputs)
    made = [parts.add.outputs[0], *inner.outputs[1:]]
    old = [parts.add, parts.closing, inner, parts.split, parts.opening]
    ir.convenience.replace_nodes_and_values(
        graph, parts.add, [n for n in old if n], [node], made, node.outputs
    )
