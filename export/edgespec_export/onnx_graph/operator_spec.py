"""What the table of operators says of an operator: its tensors and attributes, in parts.

A shape is a tuple of sizes: 1, or a symbol. Tensors of one call that share a symbol have the same
size there. `operator_parts` explains the symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

__all__ = ["Attribute", "Operator", "Part", "Tensor"]


@dataclass(frozen=True)
class Tensor:
    """An input or an output; `constant` if a kernel reads it once, when the graph is loaded."""

    name: str
    dtype: ir.DataType
    shape: tuple[int | str, ...]
    constant: bool = False


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; every call has to give it, but for `kernel_only` ones.

    It is `body_only` if kernels read the same from shapes, `kernel_only` if bodies do without it.
    """

    name: str
    type: ir.AttributeType
    body_only: bool = False
    kernel_only: bool = False


@dataclass(frozen=True)
class Part:
    """What operators have together: "Int8Weights" are weights [k, n] and their scale [n]."""

    name: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Operator:
    """One operator, made of parts.

    Attributes:
        kernel: the class template in C++ that computes it (runtimes/kernels/src/ops); None if it
            has only a body of standard operators.
        parts: what it has, in the order of its inputs and outputs.
    """

    name: str
    kernel: str | None
    parts: tuple[Part, ...]

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for part in self.parts for tensor in part.inputs)

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for part in self.parts for tensor in part.outputs)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(attribute for part in self.parts for attribute in part.attributes)

    def check_call(self, inputs: Sequence[ir.Value]) -> None:
        """Checks a call's inputs: their number and, as far as the graph says them, types and
        shapes.

        Raises:
            ValueError: they are not what the table has for this operator.
        """
        if len(inputs) != len(self.inputs):
            takes = f"takes {len(self.inputs)} inputs and is given {len(inputs)}"
            raise ValueError(f"{self.name} {takes}")
        known: dict[str, tuple[int, str]] = {}
        for tensor, value in zip(self.inputs, inputs, strict=True):
            self._check_input(tensor, value, known)

    def _check_input(
        self, tensor: Tensor, value: ir.Value, known: dict[str, tuple[int, str]]
    ) -> None:
        """Checks one input.

        Args:
            known: by symbol, its size and the tensor that has it; learns those of this input.
        """
        if value.dtype is not None and value.dtype != tensor.dtype:
            raise ValueError(f"{self.name}: {tensor.name} is {value.dtype}, not {tensor.dtype}")
        if value.shape is None:
            return
        found = f"{tensor.name} {value.shape}"
        if len(value.shape) != len(tensor.shape):
            shape = ", ".join(map(str, tensor.shape))
            raise ValueError(f"{self.name}: {found} should be [{shape}]")
        for symbol, size in zip(tensor.shape, value.shape.dims, strict=True):
            if not isinstance(size, int):
                continue
            before, where = known.setdefault(str(symbol), (size, found))
            if size != (symbol if isinstance(symbol, int) else before):
                raise ValueError(f"{self.name}: {found} and {where} differ in {symbol}")
