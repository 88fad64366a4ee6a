"""Emitting nodes: `nodes.op.MatMul(x, y)`. Every call is checked against the operator's schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

__all__ = ["CONTRIB", "OPSETS", "Nodes"]

CONTRIB = "com.microsoft"  # ONNX Runtime's own operators
OPSETS = {"": 24, CONTRIB: 1}

# The contrib operators that edgespec uses, with their attributes. The package onnx has no schemas
# for them; these are from ONNX Runtime's ContribOperators.md.
CONTRIB_ATTRIBUTES = {
    "GroupQueryAttention": {"num_heads", "kv_num_heads", "scale"},
    "MultiHeadAttention": {"num_heads", "scale"},
    "MatMulNBits": {"K", "N", "bits", "block_size", "accuracy_level"},
}


class Operators:
    """Every standard operator as a method: `op.Gather(table, tokens, axis=0)` emits a node.

    Keyword arguments are the operator's attributes. The node has one output.
    """

    def __init__(self, emit: Callable[..., Sequence[ir.Value]]) -> None:
        self._emit = emit

    def __getattr__(self, operator: str) -> Callable[..., ir.Value]:
        _standard_schema(operator)

        def emit(*inputs: ir.Value | None, **attributes: Any) -> ir.Value:
            (output,) = self._emit(operator, inputs, attributes, outputs=1)
            return output

        return emit


class Nodes(ABC):
    """The part that a graph and the body of a function have in common.

    Attributes:
        op: emits a node of any standard operator: `op.Gather(table, tokens, axis=0)`.
    """

    def __init__(self) -> None:
        self._tape = ir.tape.Tape()
        self.op = Operators(self._standard)

    @abstractmethod
    def constant(self, values: npt.ArrayLike, dtype: npt.DTypeLike) -> ir.Value:
        """A small tensor."""

    def ints(self, *values: int) -> ir.Value:
        """int64 [n], the type of shapes and of the limits of slices."""
        return self.constant(values, np.int64)

    def contrib(
        self, operator: str, inputs: Sequence[ir.Value | None], outputs: int, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Emits one of ONNX Runtime's own operators, those of `CONTRIB_ATTRIBUTES`."""
        unknown = attributes.keys() - CONTRIB_ATTRIBUTES[operator]
        if unknown:
            raise TypeError(f"{operator} has no attribute {min(unknown)!r}")
        return self._tape.op_multi_out(
            operator, inputs, attributes, num_outputs=outputs, domain=CONTRIB
        )

    def split(self, x: ir.Value, widths: Sequence[int]) -> Sequence[ir.Value]:
        """Splits x [m, Σ widths] into blocks of columns, [m, width] each."""
        return self.columns(x, self.ints(*widths), len(widths))

    def columns(self, x: ir.Value, widths: ir.Value, count: int) -> Sequence[ir.Value]:
        """`split` with widths that are a tensor, int64 [count]."""
        return self._standard("Split", [x, widths], {"axis": 1}, outputs=count)

    def largest(self, x: ir.Value, count: ir.Value) -> Sequence[ir.Value]:
        """The `count` largest numbers of each row of x [m, width] and their columns.

        Both are [m, count]; of equal numbers the first column comes first.
        """
        return self._standard("TopK", [x, count], {"axis": 1}, outputs=2)

    def _standard(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        *,
        outputs: int,
    ) -> Sequence[ir.Value]:
        schema = _standard_schema(operator)
        unknown = attributes.keys() - schema.attributes.keys()
        if unknown:
            raise TypeError(f"{operator} has no attribute {min(unknown)!r}")
        if not schema.min_input <= len(inputs) <= schema.max_input:
            raise TypeError(
                f"{operator} takes {schema.min_input} to {schema.max_input} inputs, not "
                f"{len(inputs)}"
            )
        return self._tape.op_multi_out(operator, inputs, attributes, num_outputs=outputs)


def _standard_schema(operator: str) -> onnx.defs.OpSchema:
    try:
        return onnx.defs.get_schema(operator, OPSETS[""], "")
    except onnx.defs.SchemaError:
        raise AttributeError(f"ONNX opset {OPSETS['']} has no operator {operator!r}") from None
