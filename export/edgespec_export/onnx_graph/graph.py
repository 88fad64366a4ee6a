"""A graph under construction: `g.op.MatMul(x, y)` emits a node, `g.weight(name)` names a tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgespec.version import VERSION
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.functions import DOMAIN, Function
from edgespec_export.onnx_graph.nodes import OPSETS, Nodes
from edgespec_export.onnx_graph.row_stream import Array, RowStream

__all__ = ["DeclaredBlock", "FixedCall", "Graph"]

IR_VERSION = 11


@dataclass(frozen=True)
class DeclaredBlock:
    """One block of a layer, from the norm to the addition to the residual stream.

    Attributes:
        name: of the block in the checkpoint: "model.layers.3.mlp".
        nodes: everything that was emitted for it, in order; the last node makes its result.
    """

    name: str
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True)
class FixedCall:
    """The sizes of a graph whose shapes are fixed, in the place of the symbols of others.

    Attributes:
        rows: of every call.
        capacity: positions of the cache. Every call attends to all of them; a mask hides those that
            are not valid.
        source: rows of a source; None without an encoder.
    """

    rows: int
    capacity: int
    source: int | None = None

    def shape(self, shape: Sequence[int | str]) -> list[int | str]:
        """A shape of others with these sizes."""
        sizes = {"m": self.rows, "rows": self.rows, "capacity": self.capacity}
        if self.source is not None:
            sizes["source"] = self.source
        return [sizes.get(size, size) if isinstance(size, str) else size for size in shape]


class Graph(Nodes):
    """One ONNX graph. Weights are initializers with the names that their checkpoint gives them.

    Attributes:
        weights: the source of tensors; all graphs of a variant share it, and so each tensor is
            stored once.
        blocks: the blocks that the graph's components declared, in order.
        metadata: texts that the file says about the graph.
        is_told_positions: positions are inputs (`graph_io.ROW_POSITIONS`), not computed.
        fixed: the sizes of every call, where the graph's shapes are fixed; None where they are not.
    """

    def __init__(
        self,
        name: str,
        weights: WeightFile,
        *,
        is_told_positions: bool = False,
        fixed: FixedCall | None = None,
    ) -> None:
        super().__init__()
        self.fixed = fixed
        self._constants = self._tape  # branches have other tapes, and no tensors of their own
        self._branches = 0
        self.name = name
        self.weights = weights
        self.blocks: list[DeclaredBlock] = []
        self.metadata: dict[str, str] = {}
        self.is_told_positions = is_told_positions
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._borrowed: dict[str, ir.Value] = {}
        self._initializers: dict[str, ir.Value] = {}
        self._functions: dict[str, ir.Function] = {}

    def input(self, name: str, dtype: npt.DTypeLike, shape: Sequence[int | str]) -> ir.Value:
        value = ir.val(name, dtype=_dtype(dtype), shape=self._shape(shape))
        self._inputs.append(value)
        return value

    def default_input(
        self, name: str, values: npt.ArrayLike, dtype: npt.DTypeLike, shape: Sequence[int | str]
    ) -> ir.Value:
        """An input with a default: callers that leave it out get these values."""
        array = np.array(values, dtype)
        value = self._constants.initializer(ir.tensor(array, name=name))
        value.shape = ir.Shape(shape)
        self._inputs.append(value)
        return value

    def output(
        self, name: str, value: ir.Value, dtype: npt.DTypeLike, shape: Sequence[int | str]
    ) -> None:
        value.name = name
        value.dtype = _dtype(dtype)
        value.shape = ir.Shape(self._shape(shape))
        self._outputs.append(value)

    def _shape(self, shape: Sequence[int | str]) -> Sequence[int | str]:
        return shape if self.fixed is None else self.fixed.shape(shape)

    def output_of(self, name: str) -> ir.Value:
        """What the graph returns under a name that was given to `output`, or what `borrow` has."""
        if name in self._borrowed:
            return self._borrowed[name]
        return next(value for value in self._outputs if value.name == name)

    def borrow(self, name: str, value: ir.Value) -> None:
        """Says that an input is what another graph returned under a name."""
        self._borrowed[name] = value

    def call(self, function: Function, *inputs: ir.Value, **attributes: Any) -> Sequence[ir.Value]:
        """Emits one of edgespec's own operators; all calls in a graph give the same attributes."""
        function.operator.check_call(inputs)
        if function.name not in self._functions:
            self._functions[function.name] = function.built(attributes)
        return self._tape.op_multi_out(
            function.name, inputs, attributes, num_outputs=function.outputs, domain=DOMAIN
        )

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """Declares that the nodes emitted inside the `with` statement are one block of a layer.

        The pass `fuse_blocks` replaces the nodes of such a block by one operator.
        """
        before = len(self._tape.nodes)
        yield
        self.blocks.append(DeclaredBlock(name, tuple(self._tape.nodes[before:])))

    def when(
        self, condition: ir.Value, value: ir.Value, change: Callable[[], ir.Value]
    ) -> ir.Value:
        """What `change` emits where a condition holds, else a value as it is.

        Args:
            condition: bool, a scalar.
            change: its nodes run only if the condition holds.
        """
        outer, self._tape = self._tape, ir.tape.Tape()
        try:
            changed = change()
            nodes = self._tape.nodes
        finally:
            self._tape = outer
        unchanged = ir.tape.Tape()
        same = unchanged.op("Identity", [value])
        branches = {
            "then_branch": self._branch(nodes, changed),
            "else_branch": self._branch(unchanged.nodes, same),
        }
        return self._tape.op("If", [condition], branches)

    def _branch(self, nodes: Sequence[ir.Node], result: ir.Value) -> ir.Graph:
        """A graph inside this one, whose values have names that none outside has."""
        name, self._branches = f"branch.{self._branches}", self._branches + 1
        values = [value for node in nodes for value in node.outputs]
        for number, value in enumerate(values):
            value.name = f"{name}.{number}"
        return ir.Graph([], [result], nodes=nodes, name=name)

    def weight(self, name: str) -> ir.Value:
        """A tensor of the checkpoint: float32, in the checkpoint's own layout."""
        if len(self.weights.shape(name)) > 1:
            return self.stored(name, lambda: self.weights.checkpoint_stream(name))
        return self.stored(name, lambda: self.weights.checkpoint_tensor(name))

    def stored(self, name: str, make: Callable[[], Array | RowStream]) -> ir.Value:
        """An initializer in the weight file; `make()` is called once for all graphs of the file."""
        if name not in self._initializers:
            pieces = self.weights.tensor(name, make)
            values = [self._constants.initializer(piece) for piece in pieces]
            self._initializers[name] = (
                values[0] if len(values) == 1 else self._joined(pieces, values)
            )
        return self._initializers[name]

    def _joined(self, pieces: Sequence[ir.ExternalTensor], values: Sequence[ir.Value]) -> ir.Value:
        """A tensor in pieces as one value; a runtime joins them once, when it loads the graph."""
        joined = self.op.Concat(*values, axis=0)
        joined.dtype = pieces[0].dtype
        shapes = [piece.shape.numpy() for piece in pieces]
        joined.shape = ir.Shape([sum(shape[0] for shape in shapes), *shapes[0][1:]])
        return joined

    def constant(self, values: npt.ArrayLike, dtype: npt.DTypeLike) -> ir.Value:
        """A small tensor stored in the graph itself; equal tensors are stored once."""
        array = np.array(values, dtype)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        name = f"{array.dtype}{list(array.shape)}.{digest}"
        if name not in self._initializers:
            self._initializers[name] = self._constants.initializer(ir.tensor(array, name=name))
        return self._initializers[name]

    def model(self) -> ir.Model:
        """The finished model, without nodes whose results nothing uses."""
        graph = ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._tape.nodes,
            initializers=self._tape.initializers,
            opset_imports=OPSETS | {DOMAIN: 1},
            name=self.name,
        )
        model = ir.Model(
            graph,
            ir_version=IR_VERSION,
            producer_name="edgespec",
            producer_version=VERSION,
            functions=list(self._functions.values()),
            metadata_props=self.metadata,
        )
        RemoveUnusedNodesPass()(model)
        return model


def _dtype(dtype: npt.DTypeLike) -> ir.DataType:
    return ir.DataType.from_numpy(np.dtype(dtype))
