"""Weights in 4 bits and activations in 8 bits, both in groups of 32."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError
from edgespec_export.components.linear import Linear
from edgespec_export.components.norm import Norm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int4_ops import GROUP, INT4_MATMUL, RMS_NORM_INT4_MATMUL
from edgespec_export.operators.int8_ops import INT8_EMBEDDING, INT8_MATMUL
from edgespec_export.quantization.gptq import Rounded, nearest, on_grid, with_error_feedback
from edgespec_export.quantization.hadamard import STREAM_BLOCK, rotated
from edgespec_export.quantization.int8_tables import (
    int8_head,
    int8_head_without_norm,
    int8_matrix,
    int8_table,
    rotated_rows,
)
from edgespec_export.quantization.side_by_side import add_biases, split_outputs

__all__ = ["Int4"]

Float = npt.NDArray[np.float32]

logger = logging.getLogger("edgespec")


class Int4(NumberFormat):
    """Weights in 4 bits, each `GROUP` inputs of an output with a scale and a minimum.

    A matrix that is on such a grid already, as those of GGUF's Q4_0 and Q4_1 are, keeps its weights
    exactly. One whose inputs are not a multiple of `GROUP` is stored in int8. Tables are in int8,
    Hadamard-rotated; the residual stream is not rotated.

    Args:
        moments: XᵀX [in, in] of what a product reads, by the names of its matrices joined by "+";
            errors of rounding are then taken up by other weights. None rounds each weight to the
            nearest.
    """

    has_block_operators = True

    def __init__(self, moments: Callable[[str], Float] | None = None) -> None:
        self._moments = moments
        self._said: set[str] = set()

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        (rows,) = g.call(INT8_EMBEDDING, tokens, *self._table(g, name))
        return rotated_rows(g, rows, g.weights.shape(name)[1], STREAM_BLOCK)

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        names = linear.weights
        if self._is_grouped(g, names):
            (y,) = g.call(INT4_MATMUL, x, *self._weights(g, names), **_sizes(g, names))
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
            RMS_NORM_INT4_MATMUL,
            x,
            g.weight(norm.weight),
            *self._weights(g, linear.weights),
            epsilon=norm.epsilon,
            **_sizes(g, linear.weights),
        )
        return split_outputs(g, add_biases(g, y, linear), linear)

    def head(self, g: Graph, x: ir.Value, name: str, norm: Norm, factor: float = 1.0) -> ir.Value:
        if not isinstance(norm, RmsNorm):
            return int8_head_without_norm(g, norm.emit(g, x), name, factor)
        rows = rotated_rows(g, x, g.weights.shape(name)[1], STREAM_BLOCK)
        return int8_head(g, rows, self._table(g, name), norm, factor)

    def _table(self, g: Graph, name: str) -> tuple[ir.Value, ir.Value]:
        return int8_table(
            g, name, lambda name: rotated(g.weights.checkpoint_tensor(name), STREAM_BLOCK)
        )

    def _weights(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Codes, scales and minimums of matrices, one below the other."""
        name = "+".join(names)
        rounded = cache(lambda: self._rounded(g, names))
        return (
            g.stored(f"{name}.int4", lambda: rounded().codes),
            g.stored(f"{name}.int4.scale", lambda: rounded().scale),
            g.stored(f"{name}.int4.minimum", lambda: rounded().minimum),
        )

    def _rounded(self, g: Graph, names: Sequence[str]) -> Rounded:
        matrix = np.concatenate([_checked(g, name) for name in names])
        exact = on_grid(matrix, GROUP)
        if exact is not None:
            return exact
        if self._moments is None:
            return nearest(matrix, GROUP)
        moments = self._moments("+".join(names))
        if not np.isfinite(moments).all():
            raise EdgespecError(
                f"what {names[0]!r} reads overflows; choose other texts, or --calibration none"
            )
        return with_error_feedback(matrix, moments, GROUP)

    def _is_grouped(self, g: Graph, names: Sequence[str]) -> bool:
        """Whether groups divide the matrices' inputs; if not, logs it once for all layers."""
        width = g.weights.shape(names[0])[1]
        line = f"{re.sub(r'[0-9]+', '*', names[0])}: {width} inputs are no multiple of {GROUP}"
        if width % GROUP and line not in self._said:
            self._said.add(line)
            logger.info("%s; stored in int8 instead of int4", line)
        return width % GROUP == 0


def _sizes(g: Graph, names: Sequence[str]) -> dict[str, int]:
    outs, widths = zip(*map(g.weights.shape, names), strict=True)
    return {"k": widths[0], "n": sum(outs)}


def _checked(g: Graph, name: str) -> Float:
    tensor = g.weights.checkpoint_tensor(name)
    if not np.isfinite(tensor).all():
        raise EdgespecError(f"tensor {name!r} has NaN or infinite numbers; it cannot be rounded")
    return tensor
