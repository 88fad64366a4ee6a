"""Emitting nodes: `nodes.op.MatMul(x, y)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

__all__ = ["CONTRIB", "OPSETS", "Nodes"]

CONTRIB = "com.microsoft"  # ONNX Runtime's own operators
OPSETS = {"": 24, CONTRIB: 1}


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


class Nodes(ABC):
    """What a graph and the body of a function have in common.

    Attributes:
        op: emits nodes of any operator: `op.Gather(table, places, axis=0)`.
    """

    def __init__(self) -> None:
        self._tape = ir.tape.Tape()
        self.op = Operators(self._tape)

    @abstractmethod
    def constant(self, values: npt.ArrayLike, dtype: Any) -> ir.Value:
        """A small tensor."""

    def ints(self, *values: int) -> ir.Value:
        """int64 [n], as shapes and slices want them."""
        return self.constant(values, np.int64)

    def contrib(
        self, operator: str, inputs: Sequence[ir.Value | None], outputs: int, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Emits one of ONNX Runtime's own operators."""
        return self._tape.op_multi_out(
            operator, inputs, attributes, num_outputs=outputs, domain=CONTRIB
        )

    def split(self, x: ir.Value, widths: Sequence[int]) -> Sequence[ir.Value]:
        """The columns of x [m, Σ widths], some at a time."""
        return self.columns(x, self.ints(*widths), len(widths))

    def columns(self, x: ir.Value, widths: ir.Value, count: int) -> Sequence[ir.Value]:
        """The same where the widths are a tensor [count]."""
        return self._tape.op_multi_out("Split", [x, widths], {"axis": 1}, num_outputs=count)

    def largest(self, x: ir.Value, count: ir.Value) -> Sequence[ir.Value]:
        """The so many largest numbers of each row of x [m, width], first of equals first, and their
        places: [m, count] each."""
        return self._tape.op_multi_out("TopK", [x, count], {"axis": 1}, num_outputs=2)
