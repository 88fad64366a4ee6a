"""Weights in 16 bits, activations in float32 or, at products, in 16 bits as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.output_head import OutputHead
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.row_stream import RowStream
from edgespec_export.operators.half_ops import (
    BFLOAT16_ROW_MATMUL,
    FLOAT16_MATMUL,
    RMS_NORM_BFLOAT16_ROW_MATMUL,
)
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["BFloat16Products", "Half", "HalfProducts"]


class Half(NumberFormat):
    """float16 or bfloat16. ONNX Runtime converts the matrices to float32 when it loads a graph;
    kernels read them as they are.

    Args:
        dtype: of the weights.
        product: the function that multiplies rows with them.
    """

    def __init__(self, dtype: npt.DTypeLike, product: Function) -> None:
        self._dtype = np.dtype(dtype)
        self._product = product

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        rows = g.op.Gather(self._stored(g, [name]), tokens, axis=0)
        return g.op.Cast(rows, to=ir.DataType.FLOAT)

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        (y,) = g.call(self._product, x, self._stored(g, linear.weights))
        return split_outputs(g, add_biases(g, y, linear), linear)

    def _stored(self, g: Graph, names: Sequence[str]) -> ir.Value:
        """Matrices as one, [Σ out, in]."""
        shapes = [g.weights.shape(name) for name in names]
        shape = (sum(out for out, *_ in shapes), *shapes[0][1:])
        return g.stored(
            f"{'+'.join(names)}.{self._dtype}",
            lambda: RowStream(shape, self._dtype, self._narrow(g, names)),
        )

    def _narrow(self, g: Graph, names: Sequence[str]) -> Iterator[npt.NDArray[np.generic]]:
        for name in names:
            for rows in g.weights.checkpoint_rows(name):
                with np.errstate(over="ignore"):
                    narrow = rows.astype(self._dtype)
                if not np.isfinite(narrow).all():
                    beyond = f"tensor {name!r} has numbers beyond {self._dtype}; use bf16"
                    raise EdgespecError(beyond)
                yield narrow


class BFloat16Products(Half):
    """bfloat16. Rows are rounded to it before each product, whose sums are float32, as are the
    residual stream, norms, attention and logits."""

    has_block_operators = True

    def __init__(self) -> None:
        super().__init__(ml_dtypes.bfloat16, BFLOAT16_ROW_MATMUL)

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        """The norm is part of each product."""
        if not isinstance(norm, RmsNorm):
            return super().normed_linears(g, x, norm, linears)
        return [self._normed_linear(g, x, norm, linear) for linear in linears]

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        if head.factor != 1 or not isinstance(head.norm, RmsNorm):
            return super().head(g, x, head)
        (logits,) = self._normed_linear(g, x, head.norm, Linear((head.table,)))
        return head.capped(g, logits)

    def _normed_linear(
        self, g: Graph, x: ir.Value, norm: RmsNorm, linear: Linear
    ) -> Sequence[ir.Value]:
        (y,) = g.call(
            RMS_NORM_BFLOAT16_ROW_MATMUL,
            x,
            g.weight(norm.weight),
            self._stored(g, linear.weights),
            epsilon=norm.epsilon,
        )
        return split_outputs(g, add_biases(g, y, linear), linear)


class HalfProducts(Half):
    """float16. Rows are rounded before each product and its result comes in float16; the residual
    stream, norms, attention and logits are float32. A number beyond 65 504 becomes infinite."""

    def __init__(self) -> None:
        super().__init__(np.float16, FLOAT16_MATMUL)

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        rows = g.op.Cast(x, to=ir.DataType.FLOAT16)
        y = g.op.Gemm(rows, self._stored(g, linear.weights), transB=1)
        wide = g.op.Cast(y, to=ir.DataType.FLOAT)
        return split_outputs(g, add_biases(g, wide, linear), linear)
