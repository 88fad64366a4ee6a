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


# A turn of a loop, see `Body.loop`.
LoopStep = Callable[["Body", ir.Value, Sequence[ir.Value]], tuple[Sequence[ir.Value], ir.Value]]


class Body(Nodes):
    """The body of a function under construction."""

    def __init__(self, attributes: Mapping[str, ir.Attr]) -> None:
        super().__init__()
        self._attributes = attributes
        self._loops = 0

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

    def shared_count(self, name: str) -> int:
        """An attribute that is an integer, and the same in all calls of a graph."""
        return int(self._attributes[name].as_int())

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
        given = {
            name: self.given(names.get(name, name), name)
            for name in function.attributes
            if self.has(names.get(name, name)) or name not in function.optional
        }
        return self._tape.op_multi_out(
            function.name, inputs, given, num_outputs=function.outputs, domain=DOMAIN
        )

    def loop(
        self, count: ir.Value, carried: Sequence[ir.Value], ranks: Sequence[int], step: LoopStep
    ) -> tuple[Sequence[ir.Value], ir.Value]:
        """Emits `step` as a loop: what it carries after `count` turns, and a row of each turn.

        Args:
            count: int64 scalar, turns.
            carried: float32 before the first turn; each keeps its shape, of so many axes.
            step: emits a turn, from its number (int64 scalar) and what is carried; returns what is
                carried to the next turn, and the turn's row [n].

        Returns:
            What is carried after the last turn, and the rows [count, n] ([0] of no turn).
        """
        self._loops += 1
        body, name = Body(self._attributes), f"loop.{self._loops}"
        number = ir.val(f"{name}.turn", dtype=ir.DataType.INT64, shape=[])
        condition = ir.val(f"{name}.go_on", dtype=ir.DataType.BOOL, shape=[])
        before = [
            ir.val(f"{name}.carried.{index}", dtype=ir.DataType.FLOAT, shape=[None] * rank)
            for index, rank in enumerate(ranks)
        ]
        after, row = step(body, number, before)
        outputs = [body.op.Identity(condition), *after, row]
        graph = body.graph([number, condition, *before], outputs)
        graph.name = name
        # A loop's body sees the values around it: none of its own may have the name of one.
        made = [value for node in graph for value in node.outputs]
        for index, value in enumerate(made):
            value.name = f"{name}.{index}"
        results = self._standard(
            "Loop",
            [count, self.constant(True, np.bool_), *carried],
            {"body": graph},
            outputs=len(carried) + 1,
        )
        return results[:-1], results[-1]

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

    @property
    def optional(self) -> frozenset[str]:
        """Attributes that a call need not have."""
        return frozenset(each.name for each in self.operator.attributes if each.kernel_only)

    def built(self, attributes: Mapping[str, Any]) -> ir.Function:
        """The function's body, for calls with these attributes or others of the same types."""
        assert set(attributes) | self.optional == set(self.attributes)
        typed = {
            name: ir.convenience.convert_attribute(name, attributes[name]) for name in attributes
        }
        body = Body(typed)
        inputs = {name: ir.val(name) for name in self.inputs}
        graph = body.graph(list(inputs.values()), self.emit(body, **inputs))
        declared = [ir.Attr(name, attr.type, None) for name, attr in typed.items()]
        return ir.Function(DOMAIN, self.name, graph=graph, attributes=declared)
