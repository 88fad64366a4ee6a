"""Number formats whose weights and activations are rounded in groups of 32 inputs."""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int8_ops import INT8_MATMUL
from edgespec_export.quantization.int8_tables import int8_matrix
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["Grouped", "WholeGroups", "finite_rows", "finite_tensor", "sizes"]

Float = npt.NDArray[np.float32]

logger = logging.getLogger("edgespec")


class Grouped(NumberFormat):
    """Products of rows and weights that both have a scale for each `GROUP` inputs.

    A matrix whose inputs are not a multiple of `GROUP` is stored in int8. The residual stream is
    not rotated.

    Attributes:
        name: of the format.
        product, normed_product: the operators; their weights are inputs after x, or after the norm.
    """

    has_block_operators = True
    name: str
    product: Function
    normed_product: Function

    def __init__(self) -> None:
        self._groups = WholeGroups(self.name)

    @abstractmethod
    def weights(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ...]:
        """Matrices, one below the other, as the operators take them."""

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        names = linear.weights
        if self._groups.divide(g, names):
            (y,) = g.call(self.product, x, *self.weights(g, names), **sizes(g, names))
        else:
            (y,) = g.call(INT8_MATMUL, x, *int8_matrix(g, names))
        return split_outputs(g, add_biases(g, y, linear), linear)

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        """The norm is part of each product."""
        if not isinstance(norm, RmsNorm) or g.weights.shape(norm.weight)[0] % GROUP:
            return super().normed_linears(g, x, norm, linears)
        return [self._normed_linear(g, x, norm, linear) for linear in linears]

    def _normed_linear(
        self, g: Graph, x: ir.Value, norm: RmsNorm, linear: Linear
    ) -> Sequence[ir.Value]:
        (y,) = g.call(
            self.normed_product,
            x,
            g.weight(norm.weight),
            *self.weights(g, linear.weights),
            epsilon=norm.epsilon,
            **sizes(g, linear.weights),
        )
        return split_outputs(g, add_biases(g, y, linear), linear)


class WholeGroups:
    """Whether groups divide the inputs of matrices; where not, they are stored in int8.

    Args:
        name: of the format.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._said: set[str] = set()

    def divide(self, g: Graph, names: Sequence[str]) -> bool:
        """Logs matrices that they do not divide, once for all layers."""
        width = g.weights.shape(names[0])[1]
        line = f"{re.sub(r'[0-9]+', '*', names[0])}: {width} inputs are no multiple of {GROUP}"
        if width % GROUP and line not in self._said:
            self._said.add(line)
            logger.info("%s; stored in int8 instead of %s", line, self._name)
        return width % GROUP == 0


def sizes(g: Graph, names: Sequence[str]) -> dict[str, int]:
    """The attributes of a product with these matrices: k inputs, n outputs."""
    outs, widths = zip(*map(g.weights.shape, names), strict=True)
    return {"k": widths[0], "n": sum(outs)}


def finite_tensor(g: Graph, name: str) -> Float:
    """The checkpoint's tensor [out, in].

    Raises:
        EdgespecError: it has NaN or infinite numbers.
    """
    return _finite(name, g.weights.checkpoint_tensor(name))


def finite_rows(g: Graph, name: str) -> Iterator[Float]:
    """`finite_tensor` in blocks of rows, one below the other."""
    for rows in g.weights.checkpoint_rows(name):
        yield _finite(name, rows)


def _finite(name: str, rows: Float) -> Float:
    if not np.isfinite(rows).all():
        raise EdgespecError(f"tensor {name!r} has NaN or infinite numbers; it cannot be rounded")
    return rows
