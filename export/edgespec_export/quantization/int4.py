"""Weights in 4 bits, activations in 8 bits."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int4_ops import (
    GROUP,
    HADAMARD_INT4_MATMUL,
    INT4_MATMUL,
    RMS_NORM_INT4_MATMUL,
)
from edgespec_export.quantization.gptq import Rounded, nearest, with_error_feedback
from edgespec_export.quantization.int8_rows import Int8Rows, Matrix, Products, int8_matrix

__all__ = ["Int4"]

Float = npt.NDArray[np.float32]

INT4_PRODUCTS = Products(INT4_MATMUL, RMS_NORM_INT4_MATMUL, HADAMARD_INT4_MATMUL)

_log = logging.getLogger("edgespec")


class Int4(Int8Rows):
    """Weights in 4 bits, each `GROUP` inputs of an output with a scale; activations as in int8.

    A matrix whose inputs are not a multiple of `GROUP` is stored in int8.

    Args:
        moments: XᵀX [in, in] of what a product reads, by the names of its matrices joined by "+";
            errors of rounding are then taken up by other weights. None rounds each weight to the
            nearest.
    """

    def __init__(self, moments: Callable[[str], Float] | None = None) -> None:
        self._moments = moments
        self._said: set[str] = set()

    def matrix(self, g: Graph, names: Sequence[str]) -> Matrix:
        outs, widths = zip(*map(g.weights.shape, names), strict=True)
        width = widths[0]
        if width % GROUP:
            self._say_int8(names[0], width)
            return int8_matrix(g, names)
        name = "+".join(names)
        quantized = cache(lambda: self._rounded(g, names))
        weights = g.stored(f"{name}.int4", lambda: quantized()[0])
        scale = g.stored(f"{name}.int4.scale", lambda: quantized()[1])
        return Matrix(INT4_PRODUCTS, (weights, scale), {"k": width, "n": sum(outs)})

    def _rounded(self, g: Graph, names: Sequence[str]) -> Rounded:
        """The codes and scales of matrices, one below the other."""
        matrix = np.concatenate([_checked(g, name) for name in names])
        if self._moments is None:
            return nearest(matrix, GROUP)
        moments = self._moments("+".join(names))
        if not np.isfinite(moments).all():
            raise EdgespecError(
                f"what {names[0]!r} reads overflows; choose other texts, or --calibration none"
            )
        return with_error_feedback(matrix, moments, GROUP)

    def _say_int8(self, name: str, width: int) -> None:
        """Logs, once for all layers, that a matrix stays in int8."""
        line = f"{re.sub(r'[0-9]+', '*', name)}: {width} inputs are no multiple of {GROUP}"
        if line not in self._said:
            self._said.add(line)
            _log.info("%s; stored in int8 instead of int4", line)


def _checked(g: Graph, name: str) -> Float:
    tensor = g.weights.checkpoint_tensor(name)
    if not np.isfinite(tensor).all():
        raise EdgespecError(f"tensor {name!r} has NaN or infinite numbers; it cannot be rounded")
    return tensor
