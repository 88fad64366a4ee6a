"""Weights in 4 bits, activations in 8 bits."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int4_ops import (
    GROUP,
    HADAMARD_INT4_MATMUL,
    INT4_MATMUL,
    RMS_NORM_INT4_MATMUL,
)
from edgespec_export.quantization.int8_rows import Int8Rows, Matrix, Products, int8_matrix
from edgespec_export.quantization.rounding import in_groups

__all__ = ["Int4"]

INT4_PRODUCTS = Products(INT4_MATMUL, RMS_NORM_INT4_MATMUL, HADAMARD_INT4_MATMUL)

_log = logging.getLogger("edgespec")


class Int4(Int8Rows):
    """Weights in 4 bits, each `GROUP` inputs of an output with a scale; activations as in int8.

    A matrix whose inputs are not a multiple of `GROUP` is stored in int8.
    """

    def __init__(self) -> None:
        self._said: set[str] = set()

    def matrix(self, g: Graph, names: Sequence[str]) -> Matrix:
        outs, widths = zip(*map(g.weights.shape, names), strict=True)
        width = widths[0]
        if width % GROUP:
            self._say_int8(names[0], width)
            return int8_matrix(g, names)
        name = "+".join(names)
        quantized = cache(lambda: _rounded(g, names))
        weights = g.stored(f"{name}.int4", lambda: quantized()[0])
        scale = g.stored(f"{name}.int4.scale", lambda: quantized()[1])
        return Matrix(INT4_PRODUCTS, (weights, scale), {"k": width, "n": sum(outs)})

    def _say_int8(self, name: str, width: int) -> None:
        """Logs, once for all layers, that a matrix stays in int8."""
        line = f"{re.sub(r'[0-9]+', '*', name)}: {width} inputs are no multiple of {GROUP}"
        if line not in self._said:
            self._said.add(line)
            _log.info("%s; stored in int8 instead of int4", line)


def _rounded(g: Graph, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    codes, scales = zip(
        *(in_groups(g.weights.checkpoint_tensor(name), GROUP) for name in names), strict=True
    )
    return np.concatenate(codes), np.concatenate(scales)
