"""edgespec's own operators, each with a body of standard ones (in ONNX: a model-local function).

A runtime without a kernel for an operator executes its body. Where the package `edgespec-kernels`
is installed, ONNX Runtime finds a kernel by the operator's name and never reads the body
(docs/decisions/0018-kernels.md). So a body with a new meaning needs a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.onnx_graph.nodes import OPSETS, Nodes
from edgespec_export.onnx_graph.operator_spec import Operator
from edgespec_export.onnx_graph.operator_table import DOMAIN, OPERATORS

__all__ = ["DOMAIN", "Body", "Function"]


class Body(Nodes):
    """The body of a function under construction."""

    def __init__(self, attributes: Mapping[str, ir.Attr]) -> None:
        super().__init__()
        self._attributes = attributes

    def constant(self, values: npt.ArrayLike, dtype: npt.DTypeLike) -> ir.Value:
        return self.op.Constant(value=ir.tensor(np.array(values, dtype)))

    def has(self, name: str) -> bool:
        """Whether the call has this attribute."""
        return name in self._attributes

    def given(self, name: str, at: str | None = None) -> ir.Attr:
        """An attribute of the call, for the attribute `at` of a node; the same name if None."""
        return ir.RefAttr(at or name, name, self._attributes[name].type)

    def number(self, name: str) -> ir.Value:
        """An attribute of the call that is a float, as a tensor."""
        return self.op.Constant(value_float=self.given(name, "value_float"))

    def count(self, name: str) -> ir.Value:
        """An attribute of the call that is an integer, as a tensor [1]."""
        return self.op.Reshape(
            self.op.Constant(value_int=self.given(name, "value_int")), self.ints(1)
        )

    def shape(self, name: str) -> ir.Value:
        """An attribute of the call that is a list of integers, as a tensor."""
        return self.op.Constant(value_ints=self.given(name, "value_ints"))

    def call(
        self, function: Function, *inputs: ir.Value, renamed: Mapping[str, str] | None = None
    ) -> Sequence[ir.Value]:
        """Emits another of edgespec's operators, with the attributes of this call.

        Args:
            renamed: attributes of the function with their other names in this call.
        """
        function.operator.check_call(inputs)
        names = renamed or {}
        given = {name: self.given(names.get(name, name), name) for name in function.attributes}
        return self._tape.op_multi_out(
            function.name, inputs, given, num_outputs=function.outputs, domain=DOMAIN
        )

    def graph(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Graph:
        opsets = OPSETS | {DOMAIN: 1}
        return ir.Graph(inputs, outputs, nodes=self._tape.nodes, opset_imports=opsets)


@dataclass(frozen=True)
class Function:
    """An operator of the table (`operator_table`) with its body.

    Attributes:
        name: of the operator, in the domain `DOMAIN`.
        emit: emits the body, from the inputs, which it is given by their names, to the outputs. It
            runs once for a graph, so only `Body.given` may differ from call to call.
    """

    name: str
    emit: Callable[..., Sequence[ir.Value]]

    @property
    def operator(self) -> Operator:
        return OPERATORS[self.name]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.operator.inputs)

    @property
    def outputs(self) -> int:
        return len(self.operator.outputs)

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.operator.attributes)

    def built(self, attributes: Mapping[str, Any]) -> ir.Function:
        """The function's body, for calls with these attributes or others of the same types."""
        assert set(attributes) == set(self.attributes)
        typed = {
            name: ir.convenience.convert_attribute(name, attributes[name]) for name in attributes
        }
        body = Body(typed)
        inputs = {name: ir.val(name) for name in self.inputs}
        graph = body.graph(list(inputs.values()), self.emit(body, **inputs))
        declared = [ir.Attr(name, attr.type, None) for name, attr in typed.items()]
        return ir.Function(DOMAIN, self.name, graph=graph, attributes=declared)
