"""Weights in 16 bits, activations in float32; on devices, products in 16 bits as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError
from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.row_stream import RowStream
from edgespec_export.operators.half_ops import FLOAT16_MATMUL
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["Half", "HalfProducts"]


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
