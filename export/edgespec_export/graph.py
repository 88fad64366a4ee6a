"""A graph under construction: `g.op.MatMul(x, y)` emits a node, `g.weight(name)` names a tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec import __version__
from edgespec_export.weight_file import WeightFile

__all__ = ["Graph"]

CONTRIB = "com.microsoft"  # ONNX Runtime's own operators
OPSET = 24
IR_VERSION = 11


class Operators:
    """Every operator as a method: `op.Gather(table, places, axis=0)` emits a node.

    Keyword arguments are the operator's attributes; `_domain` is its domain.
    """

    def __init__(self, tape: ir.tape.Tape) -> None:
        self._tape = tape

    def __getattr__(self, operator: str) -> Callable[..., ir.Value]:
        def emit(*inputs: ir.Value | None, _domain: str = "", **attributes: Any) -> ir.Value:
            return self._tape.op(operator, inputs, attributes, domain=_domain)

        return emit


class Graph:
    """One ONNX graph. Weights are initializers under the names their checkpoint gives them.

    Attributes:
        op: emits nodes of any operator: `op.Gather(table, places, axis=0)`.
        weights: where tensors come from; graphs of one variant share it, and thereby the bytes.
    """

    def __init__(self, name: str, weights: WeightFile) -> None:
        self.name = name
        self.weights = weights
        self._tape = ir.tape.Tape()
        self.op = Operators(self._tape)
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> ir.Value:
        value = ir.val(name, dtype=_dtype(dtype), shape=shape)
        self._inputs.append(value)
        return value

    def output(self, name: str, value: ir.Value, dtype: Any, shape: Sequence[int | str]) -> None:
        value.name = name
        value.dtype = _dtype(dtype)
        value.shape = ir.Shape(shape)
        self._outputs.append(value)

    def contrib(
        self, operator: str, inputs: Sequence[ir.Value | None], outputs: int, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Emits one of ONNX Runtime's own operators."""
        return self._tape.op_multi_out(
            operator, inputs, attributes, num_outputs=outputs, domain=CONTRIB
        )

    def split(self, x: ir.Value, widths: Sequence[int]) -> Sequence[ir.Value]:
        """The columns of x [m, Σ widths], some at a time."""
        count = len(widths)
        return self._tape.op_multi_out(
            "Split", [x, self.ints(*widths)], {"axis": 1}, num_outputs=count
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

    def ints(self, *values: int) -> ir.Value:
        """int64 [n], as shapes and slices want them."""
        return self.constant(values, np.int64)

    def model(self) -> ir.Model:
        graph = ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._tape.nodes,
            initializers=self._tape.initializers,
            opset_imports={"": OPSET, CONTRIB: 1},
            name=self.name,
        )
        return ir.Model(
            graph, ir_version=IR_VERSION, producer_name="edgespec", producer_version=__version__
        )


def _dtype(dtype: Any) -> ir.DataType:
    return ir.DataType.from_numpy(np.dtype(dtype))
