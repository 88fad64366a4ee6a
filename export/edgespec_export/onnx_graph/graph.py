"""A graph under construction: `g.op.MatMul(x, y)` emits a node, `g.weight(name)` names a tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgespec import __version__
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.functions import DOMAIN, Function
from edgespec_export.onnx_graph.nodes import OPSETS, Nodes
from edgespec_export.onnx_graph.operator_schema import check_call
from edgespec_export.passes.fuse_blocks import fuse_blocks

__all__ = ["Graph"]

IR_VERSION = 11


class Graph(Nodes):
    """One ONNX graph. Weights are initializers under the names their checkpoint gives them.

    Attributes:
        weights: where tensors come from; graphs of one variant share it, and thereby the bytes.
    """

    def __init__(self, name: str, weights: WeightFile) -> None:
        super().__init__()
        self.name = name
        self.weights = weights
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}
        self._functions: dict[str, ir.Function] = {}

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> ir.Value:
        value = ir.val(name, dtype=_dtype(dtype), shape=shape)
        self._inputs.append(value)
        return value

    def default_input(
        self, name: str, values: npt.ArrayLike, dtype: Any, shape: Sequence[int | str]
    ) -> ir.Value:
        """An input that callers may leave out: it has these values then."""
        array = np.array(values, dtype)
        value = self._tape.initializer(ir.tensor(array, name=name))
        value.shape = ir.Shape(shape)
        self._inputs.append(value)
        return value

    def output(self, name: str, value: ir.Value, dtype: Any, shape: Sequence[int | str]) -> None:
        value.name = name
        value.dtype = _dtype(dtype)
        value.shape = ir.Shape(shape)
        self._outputs.append(value)

    def call(self, function: Function, *inputs: ir.Value, **attributes: Any) -> Sequence[ir.Value]:
        """Emits one of edgespec's own operators; all calls in a graph name the same attributes."""
        check_call(function.name, inputs)
        if function.name not in self._functions:
            self._functions[function.name] = function.built(attributes)
        return self._tape.op_multi_out(
            function.name, inputs, attributes, num_outputs=function.outputs, domain=DOMAIN
        )

    def weight(self, name: str) -> ir.Value:
        """A tensor of the checkpoint: float32, in the checkpoint's own layout."""
        return self.stored(name, lambda: self.weights.checkpoint_tensor(name))

    def stored(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> ir.Value:
        """An initializer whose bytes lie in the weight file; `make()` is called once a file."""
        if name not in self._initializers:
            self._initializers[name] = self._tape.initializer(self.weights.tensor(name, make))
        return self._initializers[name]

    def constant(self, values: npt.ArrayLike, dtype: Any) -> ir.Value:
        """A small tensor kept in the graph itself; equal ones are kept once."""
        array = np.array(values, dtype)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        name = f"{array.dtype}{list(array.shape)}.{digest}"
        if name not in self._initializers:
            self._initializers[name] = self._tape.initializer(ir.tensor(array, name=name))
        return self._initializers[name]

    def model(self) -> ir.Model:
        graph = ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._tape.nodes,
            initializers=self._tape.initializers,
            opset_imports=OPSETS | {DOMAIN: 1},
            name=self.name,
        )
        fuse_blocks(graph, self._functions)
        model = ir.Model(
            graph,
            ir_version=IR_VERSION,
            producer_name="edgespec",
            producer_version=__version__,
            functions=list(self._functions.values()),
        )
        RemoveUnusedNodesPass()(model)  # what a format computed and found no use for
        return model


def _dtype(dtype: Any) -> ir.DataType:
    return ir.DataType.from_numpy(np.dtype(dtype))
